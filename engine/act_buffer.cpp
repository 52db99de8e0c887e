// Layout of the forms in one mapping, and moving rows in and out of it.
#include "engine/act_buffer.h"

#include <cstring>

namespace kvasir {
namespace {

// A whole number of cache lines for each array.
int64_t lines(int64_t n_bytes) {
  return (n_bytes + 63) / 64 * 64;
}

A8Rows skip(const A8Rows& from, int64_t n_cols, int64_t i) {
  if (!from.codes) return from;
  return {from.codes + i * n_cols, from.scales + i * (n_cols / from.block), from.sums + i * (n_cols / 16), from.block};
}

}  // namespace

Expected<ActBuffer> ActBuffer::create(int64_t max_rows, int64_t max_cols) {
  const int64_t n = max_rows * max_cols;
  const int64_t sums = lines(n / 16 * 2), scales_32 = lines(n / 32 * 4), scales_256 = lines(n / 256 * 4);
  ActBuffer b;
  KV_TRY(b.memory_, Memory::reserve(uint64_t(lines(n * 4) + 2 * lines(n) + 2 * sums + scales_32 + scales_256),
                                    Memory::Pages::small, "activations"));
  std::byte* next = b.memory_.data();
  const auto take = [&next](int64_t n_bytes) {
    auto* at = next;
    next += lines(n_bytes);
    return at;
  };
  b.f32_ = reinterpret_cast<float*>(take(n * 4));
  for (auto* form : {&b.a8_32_, &b.a8_256_}) {
    form->codes = reinterpret_cast<int8_t*>(take(n));
    form->scales = reinterpret_cast<float*>(take(form == &b.a8_32_ ? scales_32 : scales_256));
    form->sums = reinterpret_cast<int16_t*>(take(sums));
  }
  return b;
}

bool ActBuffer::write(const CpuBackend& backend, int64_t i, const float* x) {
  const auto quantize = [&](const Codes& at, int block) {
    return backend.quantize_a8(x, n_cols_, block, at.codes + i * n_cols_, at.scales + i * (n_cols_ / block),
                               at.sums + i * (n_cols_ / 16));
  };
  return (!forms_.f32 || backend.flush_f32(x, n_cols_, f32_ + i * n_cols_)) &&
         (!forms_.a8_32 || quantize(a8_32_, 32)) && (!forms_.a8_256 || quantize(a8_256_, 256));
}

void ActBuffer::copy(const ActRows& from, int64_t i, int64_t to) {
  if (forms_.f32) std::memcpy(f32_ + to * n_cols_, from.f32 + i * n_cols_, size_t(n_cols_) * 4);
  const auto copy_codes = [&](const A8Rows& source, const Codes& at) {
    const A8Rows row = skip(source, n_cols_, i);
    const int64_t n_blocks = n_cols_ / source.block;
    std::memcpy(at.codes + to * n_cols_, row.codes, size_t(n_cols_));
    std::memcpy(at.scales + to * n_blocks, row.scales, size_t(n_blocks) * 4);
    std::memcpy(at.sums + to * (n_cols_ / 16), row.sums, size_t(n_cols_ / 16) * 2);
  };
  if (forms_.a8_32) copy_codes(from.a8_32, a8_32_);
  if (forms_.a8_256) copy_codes(from.a8_256, a8_256_);
}

A8Rows ActBuffer::a8_rows(const Codes& at, int block, int64_t begin) const {
  return skip({at.codes, at.scales, at.sums, block}, n_cols_, begin);
}

ActRows ActBuffer::rows(int64_t begin, int64_t n) const {
  ActRows r{.n_rows = n, .n_cols = n_cols_, .f32 = nullptr, .a8_32 = {}, .a8_256 = {}};
  if (forms_.f32) r.f32 = f32_ + begin * n_cols_;
  if (forms_.a8_32) r.a8_32 = a8_rows(a8_32_, 32, begin);
  if (forms_.a8_256) r.a8_256 = a8_rows(a8_256_, 256, begin);
  return r;
}

ActRows act_row(const ActRows& rows, int64_t i) {
  return {1, rows.n_cols, rows.f32 ? rows.f32 + i * rows.n_cols : nullptr, skip(rows.a8_32, rows.n_cols, i),
          skip(rows.a8_256, rows.n_cols, i)};
}

}  // namespace kvasir
