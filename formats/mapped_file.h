// A file mapped read-only into memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.h"

namespace kvasir {

// Owns the mapping. Move-only; data() stays valid across moves.
class MappedFile {
 public:
  // Fails with not_found, io (with the system's reason), or io for a directory or another thing that is no plain file.
  // An empty file maps to size 0.
  static Expected<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

  // Tells the kernel that these bytes were used and are not needed soon, so that they stop counting as resident.
  void drop(const std::byte* begin, uint64_t n_bytes) const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace kvasir
