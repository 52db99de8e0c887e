// What this machine's memory delivers to plain reading: the yardstick for kernels that read each weight once.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/thread_pool.h"

namespace kvasir {

// Owns a buffer that is larger than caches (512 MiB unless told otherwise, huge pages where offered). Move-only.
class ReadBandwidth {
 public:
  // Fails with limit if the memory cannot be had. n_bytes is rounded up to 2 MiB.
  static Expected<ReadBandwidth> create(uint64_t n_bytes = uint64_t(512) << 20);
  ReadBandwidth(ReadBandwidth&& other) noexcept;
  ~ReadBandwidth();

  // Bytes per second of one pass over the buffer by all threads of the pool, each in blocks of its own.
  double measure(ThreadPool& pool) const;

 private:
  ReadBandwidth(std::byte* data, uint64_t n_bytes) : data_(data), n_bytes_(n_bytes) {}
  std::byte* data_;
  uint64_t n_bytes_;
};

}  // namespace kvasir
