// Encodes keys as they come; writes header, padding and tensor data in one pass to a temporary name.
#include "formats/gguf_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/checked.h"

namespace kvasir {
namespace {

constexpr uint64_t kPieceBytes = uint64_t(8) << 20;  // what a Source is asked for at a time

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view s) {
  append(out, uint64_t(s.size()));
  out.append(s);
}

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

uint64_t aligned(uint64_t at, uint64_t alignment) {
  const auto up = checked_align(at, alignment);
  KV_CHECK(up.has_value(), "a file position fits");
  return *up;
}

int dims_of(const TensorView& v, int n_dims) {
  if (n_dims) return n_dims;
  return v.n_matrices > 1 ? 3 : v.n_rows > 1 ? 2 : 1;
}

}  // namespace

GgufWriter::GgufWriter(std::string_view architecture, uint64_t alignment) : alignment_(alignment) {
  add_string("general.architecture", architecture);
  if (alignment != 32) add_u32("general.alignment", uint32_t(alignment));
}

void GgufWriter::add_key(std::string_view key, GgufType type) {
  KV_CHECK(std::ranges::find(names_, key) == names_.end(), "a key is written once");
  names_.emplace_back(key);
  ++n_keys_;
  append_string(keys_, key);
  append(keys_, uint32_t(type));
}

void GgufWriter::add_u32(std::string_view key, uint32_t value) {
  add_key(key, GgufType::u32);
  append(keys_, value);
}

void GgufWriter::add_u64(std::string_view key, uint64_t value) {
  add_key(key, GgufType::u64);
  append(keys_, value);
}

void GgufWriter::add_f32(std::string_view key, float value) {
  add_key(key, GgufType::f32);
  append(keys_, value);
}

void GgufWriter::add_bool(std::string_view key, bool value) {
  add_key(key, GgufType::boolean);
  append(keys_, uint8_t(value));
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  add_key(key, GgufType::string);
  append_string(keys_, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  add_key(key, GgufType::array);
  append(keys_, uint32_t(GgufType::string));
  append(keys_, uint64_t(values.size()));
  for (const auto& v : values) append_string(keys_, v);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_key(key, GgufType::array);
  append(keys_, uint32_t(GgufType::i32));
  append(keys_, uint64_t(values.size()));
  for (const auto v : values) append(keys_, v);
}

void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  add_key(key, GgufType::array);
  append(keys_, uint32_t(GgufType::f32));
  append(keys_, uint64_t(values.size()));
  for (const auto v : values) append(keys_, v);
}

void GgufWriter::add_tensor(std::string_view name, const TensorView& view, Source source, int n_dims) {
  KV_CHECK(view.data || source, "a tensor has bytes or a source of them");
  if (!source)
    source = [data = view.data](uint64_t offset, std::byte* out, uint64_t n) { std::memcpy(out, data + offset, n); };
  tensors_.push_back({std::string(name), view, std::move(source), dims_of(view, n_dims)});
}

Expected<void> GgufWriter::write(const std::string& path) const {
  std::string header;
  append(header, uint32_t(0x46554747));  // "GGUF"
  append(header, uint32_t(3));
  append(header, uint64_t(tensors_.size()));
  append(header, n_keys_);
  header += keys_;
  uint64_t offset = 0;
  for (const auto& t : tensors_) {
    append_string(header, t.name);
    append(header, uint32_t(t.n_dims));
    const int64_t dims[3] = {t.view.n_cols, t.view.n_rows, t.view.n_matrices};
    for (int d = 0; d < t.n_dims; ++d) append(header, d < 3 ? uint64_t(dims[d]) : uint64_t(1));
    append(header, uint32_t(t.view.type));
    append(header, offset);
    offset = aligned(offset + uint64_t(t.view.bytes()), alignment_);
  }

  const std::string part = path + ".part";
  std::unique_ptr<std::FILE, Close> file(std::fopen(part.c_str(), "wb"));
  const auto failed = [&] {
    const int reason = errno;
    file.reset();
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    return fail(ErrorCode::io, "{}: cannot be written: {}", path, std::strerror(reason));
  };
  if (!file) return failed();
  uint64_t at = 0;
  const auto put = [&](const void* bytes, uint64_t n) {
    at += n;
    return n == 0 || std::fwrite(bytes, 1, n, file.get()) == n;
  };
  const std::string zeros(alignment_, '\0');
  const auto pad = [&] { return put(zeros.data(), aligned(at, alignment_) - at); };

  if (!put(header.data(), header.size()) || !pad()) return failed();
  std::vector<std::byte> piece;
  for (const auto& t : tensors_) {
    const auto n_bytes = uint64_t(t.view.bytes());
    for (uint64_t done = 0; done < n_bytes;) {
      const auto n = std::min(kPieceBytes, n_bytes - done);
      piece.resize(n);
      t.source(done, piece.data(), n);
      if (!put(piece.data(), n)) return failed();
      done += n;
    }
    if (!pad()) return failed();
  }
  if (std::fflush(file.get()) != 0) return failed();
  file.reset();
  if (std::rename(part.c_str(), path.c_str()) != 0) return failed();
  return {};
}

}  // namespace kvasir
