// GGUF versions 2 and 3: metadata and tensors of a model in one file or many, read over mappings.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/tensor_view.h"
#include "formats/mapped_file.h"

namespace kvasir {

// Numbers as GGUF stores them.
enum class GgufType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};

// An array's elements as they lie in the file; strings are views into it.
struct GgufArray {
  GgufType type = GgufType::u8;
  std::vector<uint64_t> integers;         // u8 … i64, boolean (signed ones sign-extended)
  std::vector<double> reals;              // f32, f64
  std::vector<std::string_view> strings;  // string
  size_t size() const { return integers.size() + reals.size() + strings.size(); }
};

// One metadata value: integers widened to 64 bits, f32 to f64, strings as views into the mapping.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::u8;  // as stored
  GgufValue value;
  uint64_t offset = 0;  // of the key, in its file
};

struct GgufTensor {
  std::string_view name;
  TensorView view;
  int n_dims = 0;
  size_t file = 0;      // index into files()
  uint64_t offset = 0;  // of the data, from the start of that file
};

// A model's file or files. Opening checks everything that LESSONS and the GG cases ask: counts by the bytes left,
// names, alignment, types, shapes, ranges, overlaps, duplicates, split parts. Nothing is allocated by an unchecked
// number. Owns the mappings; views borrow from it. Move-only.
class Gguf {
 public:
  // path may name any part of a split model ("name-00002-of-00005.gguf"); the others are found beside it.
  static Expected<Gguf> open(const std::string& path);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const MappedFile> files() const { return files_; }
  std::span<const GgufEntry> entries() const { return entries_; }   // of the first part
  std::span<const GgufTensor> tensors() const { return tensors_; }  // of all parts, by part and offset
  uint64_t file_bytes() const;

  // nullptr if there is none of that name.
  const GgufEntry* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // A required value of any stored width: not_found names the key, malformed says which type was expected and found
  // and whether the number is in [min, max].
  Expected<int64_t> integer(std::string_view key, int64_t min, int64_t max) const;
  Expected<double> real(std::string_view key) const;
  Expected<bool> boolean(std::string_view key) const;
  Expected<std::string_view> string(std::string_view key) const;
  Expected<std::span<const std::string_view>> strings(std::string_view key) const;
  // An array of integers, or (for keys that may be either) one integer as an array of one.
  Expected<std::vector<int64_t>> integers(std::string_view key) const;
  // nullopt if the key is absent, the above if it is there.
  Expected<std::optional<int64_t>> optional_integer(std::string_view key, int64_t min, int64_t max) const;
  Expected<std::optional<double>> optional_real(std::string_view key) const;
  Expected<std::optional<bool>> optional_boolean(std::string_view key) const;
  Expected<std::optional<std::string_view>> optional_string(std::string_view key) const;

  // A required tensor of the given shape; the error names the tensor, what was expected and found.
  Expected<TensorView> tensor(std::string_view name, int64_t n_cols, int64_t n_rows = 1, int64_t n_matrices = 1) const;

  // Tells the kernel that a tensor's bytes were used (after repacking).
  void drop(const GgufTensor& tensor) const;

 private:
  Gguf() = default;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<MappedFile> files_;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> by_key_, by_name_;  // indices, sorted by key and by name
};

}  // namespace kvasir
