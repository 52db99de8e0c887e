// Anonymous memory from the system: zero, touched only as it is used, large pages where wanted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace kvasir {

// Owns one mapping. Move-only; data() stays valid across moves.
class Memory {
 public:
  enum class Pages { small, huge };
  Memory() = default;
  // n_bytes of zeros, 2 MiB aligned if huge, page aligned otherwise. 0 bytes is allowed. Fails with limit, naming what
  // it was for, the size and the system's reason.
  static Expected<Memory> reserve(uint64_t n_bytes, Pages pages, std::string_view what);
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  // Everything reads as zero again and no memory is held until it is touched.
  void clear();

 private:
  void swap(Memory& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  void* mapping_ = nullptr;
  uint64_t mapped_ = 0;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace kvasir
