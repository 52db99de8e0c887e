// Writes GGUF version 3: metadata first, then tensors whose bytes may come piece by piece.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/gguf.h"

namespace kvasir {

// Collects keys and tensors, then writes the file under a temporary name beside it and renames it.
class GgufWriter {
 public:
  explicit GgufWriter(std::string_view architecture, uint64_t alignment = 32);

  // Keys in the order in which they will stand. A key given twice is a bug (KV_CHECK).
  void add_u32(std::string_view key, uint32_t value);
  void add_u64(std::string_view key, uint64_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);

  // Fills [out, out + n) with the tensor's bytes from `offset` on; called in increasing order, at most 8 MiB at a time.
  using Source = std::function<void(uint64_t offset, std::byte* out, uint64_t n)>;

  // Shape as in TensorView; view.data may be null if source is given, and is copied from otherwise. n_dims 0 derives
  // the number of dimensions from the shape.
  void add_tensor(std::string_view name, const TensorView& view, Source source = {}, int n_dims = 0);

  // Fails with io, naming the path and the system's reason; nothing is left behind then.
  Expected<void> write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    TensorView view;
    Source source;
    int n_dims;
  };
  void add_key(std::string_view key, GgufType type);
  uint64_t alignment_;
  uint64_t n_keys_ = 0;
  std::string keys_;  // encoded
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvasir
