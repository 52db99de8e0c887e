// Safetensors: a JSON header and tensors that fill the rest of the file.
// Format: https://github.com/huggingface/safetensors#format
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/mapped_file.h"

namespace kvasir {

struct SafetensorsTensor {
  std::string dtype;            // as the file says it: "F32", "BF16", "U8", …
  std::vector<uint64_t> shape;  // slowest dimension first; empty for a scalar
  const std::byte* data = nullptr;
  uint64_t n_bytes = 0;
};

// Owns the mapping; tensors borrow from it. Move-only.
class SafetensorsFile {
 public:
  // Refuses, naming the tensor or the place: a header longer than the file or kMaxSafetensorsHeader, that is no JSON
  // object or nests deeply, keys that stand twice, unknown types, shapes that overflow or do not fill their range, and
  // ranges that overlap or leave a hole or a tail.
  static Expected<SafetensorsFile> open(const std::string& path);

  // nullptr if there is none of that name.
  const SafetensorsTensor* find(std::string_view name) const;
  const std::map<std::string, SafetensorsTensor, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace kvasir
