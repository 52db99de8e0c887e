// The reference target's table: activations, matrix products, expert and combine as docs/NUMERICS.md states them.
//
// What is peculiar about this target: nothing. It decodes one GGUF block at a time into plain integers (blocks.h),
// takes the term of each activation row (dot.h), and adds in the order that the law gives. No packing, any row by
// itself.
#include "kernels/reference/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/limits.h"
#include "kernels/reference/dot.h"

namespace kvasir {
namespace {

constexpr float kTinyBlock = 0x1p-60F;  // an A8 block below this is all zeros
constexpr float kTinyFloat = 0x1p-40F;  // a float weight or its activation below this reads as 0

// One accumulator row: the sum by pairs, the neighbours first.
template <size_t n>
float tree(std::array<float, n> a) {
  for (size_t step = 1; step < n; step *= 2)
    for (size_t i = 0; i < n; i += 2 * step) a[i] = a[i] + a[i + step];
  return a[0];
}

void quantize_block(const float* x, int block, int8_t* codes, float* scale) {
  float amax = 0;
  for (int i = 0; i < block; ++i) amax = std::max(amax, std::fabs(x[i]));
  if (amax < kTinyBlock) {
    *scale = 0;
    std::memset(codes, 0, block);
    return;
  }
  const float d = amax * 0.007874016F;
  const float inverse = exact_recip(d);
  for (int i = 0; i < block; ++i) codes[i] = int8_t(std::clamp(std::rint(x[i] * inverse), -127.0F, 127.0F));
  *scale = d;
}

bool all_finite(const float* x, int64_t n) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

bool quantize_a8(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums) {
  if (!all_finite(x, n)) return false;
  for (int64_t b = 0; b < n / block; ++b) quantize_block(x + b * block, block, codes + b * block, scales + b);
  for (int64_t i = 0; i < n / 16; ++i) {
    int sum = 0;
    for (int j = 0; j < 16; ++j) sum += codes[i * 16 + j];
    sums[i] = int16_t(sum);
  }
  return true;
}

float flush(float x) {
  return std::fabs(x) < kTinyFloat ? 0.0F : x;
}

bool flush_f32(const float* x, int64_t n, float* out) {
  if (!all_finite(x, n)) return false;
  std::transform(x, x + n, out, flush);
  return true;
}

// Weight i of a float row, widened and flushed.
float float_weight(QuantType type, const std::byte* row, int64_t i) {
  if (type == QuantType::f32) {
    float w;
    std::memcpy(&w, row + 4 * i, 4);
    return flush(w);
  }
  uint16_t bits;
  std::memcpy(&bits, row + 2 * i, 2);
  return flush(type == QuantType::f16 ? f16_to_f32(bits) : std::bit_cast<float>(uint32_t(bits) << 16));
}

// One float weight row against every activation row. The row is widened in pieces, so that 512 activation rows do not
// widen it 512 times; a piece is a multiple of 16, so that element i still meets accumulator i mod 16.
void float_row(const Weights& w, int64_t r, const ActRows& x, float* out, int64_t out_stride) {
  constexpr int64_t kPiece = 256;
  const std::byte* row = w.data + r * row_bytes(w.type, w.n_cols);
  std::array<std::array<float, 16>, kMaxBatchRows> acc;  // 32 KiB of stack
  std::fill_n(acc.begin(), x.n_rows, std::array<float, 16>{});
  for (int64_t begin = 0; begin < w.n_cols; begin += kPiece) {
    const int64_t n = std::min(kPiece, w.n_cols - begin);
    std::array<float, kPiece> piece;
    for (int64_t i = 0; i < n; ++i) piece[i] = float_weight(w.type, row, begin + i);
    for (int64_t t = 0; t < x.n_rows; ++t) {
      const float* a = x.f32 + t * x.n_cols + begin;
      for (int64_t i = 0; i < n; ++i) acc[t][i % 16] = acc[t][i % 16] + piece[i] * a[i];
    }
  }
  for (int64_t t = 0; t < x.n_rows; ++t) out[t * out_stride + r] = tree(acc[t]);
}

// One quantised weight row against every activation row: each block is decoded once.
void quantised_row(const Weights& w, int64_t r, const ActRows& x, float* out, int64_t out_stride) {
  const QuantTypeInfo& type = info(w.type);
  const A8Rows& a8 = type.act == ActType::a8_32 ? x.a8_32 : x.a8_256;
  const auto* row = reinterpret_cast<const uint8_t*>(w.data) + r * row_bytes(w.type, w.n_cols);
  const DecodeBlock decode = decoder(w.type);
  const Term term_of = term(w.type);
  const int64_t n_blocks = w.n_cols / type.block;
  std::array<std::array<float, 8>, kMaxBatchRows> acc;  // 16 KiB of stack
  std::fill_n(acc.begin(), x.n_rows, std::array<float, 8>{});
  DecodedBlock block;
  for (int64_t b = 0; b < n_blocks; ++b) {
    decode(row + b * type.block_bytes, block);
    for (int64_t t = 0; t < x.n_rows; ++t) {
      const int64_t at = t * x.n_cols + b * type.block;
      const A8Block a{a8.codes + at, a8.sums + at / 16, a8.scales[t * n_blocks + b]};
      acc[t][b % 8] = acc[t][b % 8] + term_of(block, a);
    }
  }
  for (int64_t t = 0; t < x.n_rows; ++t) out[t * out_stride + r] = tree(acc[t]);
}

void matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t out_stride) {
  KV_CHECK(x.n_rows <= kMaxBatchRows && x.n_cols == w.n_cols, "the activations do not fit the weights");
  const bool quantised = info(w.type).act != ActType::f32;
  for (int64_t r = row_begin; r < row_end; ++r)
    quantised ? quantised_row(w, r, x, out, out_stride) : float_row(w, r, x, out, out_stride);
}

void silu_mul(const float* gate, const float* up, int64_t n, float* h) {
  for (int64_t i = 0; i < n; ++i) h[i] = exact_silu(gate[i]) * up[i];
}

bool add_fixed(float weight, const float* y, int64_t n, int64_t* sums) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = weight * y[i];
    if (!(std::fabs(v) < 0x1p38F)) return false;  // written so that NaN fails too
    const auto c = int64_t(std::rint(v * 0x1p24F));
    sums[i] = int64_t(uint64_t(sums[i]) + uint64_t(c));  // two of 2^62 would overflow: unsigned wraps instead
  }
  return true;
}

void fixed_to_f32(const int64_t* sums, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = float(sums[i]) * 0x1p-24F;
}

int64_t packed_bytes(QuantType, int64_t, int64_t) {
  return 0;
}

void pack(const TensorView&, int64_t, int64_t, std::byte*) {}

}  // namespace

const CpuBackend& reference_backend() {
  static constexpr CpuBackend kBackend = {
      .name = "reference",
      .row_group = 1,
      .packed_bytes = packed_bytes,
      .pack = pack,
      .quantize_a8 = quantize_a8,
      .flush_f32 = flush_f32,
      .matmul = matmul,
      .silu_mul = silu_mul,
      .add_fixed = add_fixed,
      .fixed_to_f32 = fixed_to_f32,
  };
  return kBackend;
}

}  // namespace kvasir
