// Matrix product for float weights: element i goes to lane i mod 16 of its row's accumulator; no multiply-add is fused.
#include <algorithm>

#include "core/error.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

struct F32 {
  static constexpr int kBytes = 4;
  static __m512 load(const uint8_t* p, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, p); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static __m512 load(const uint8_t* p, __mmask16 mask) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p)); }
};
struct Bf16 {
  static constexpr int kBytes = 2;
  static __m512 load(const uint8_t* p, __mmask16 mask) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16));
  }
};

// ((l0+l1)+(l2+l3)) + ...: neighbours first.
inline float tree(__m512 a) {
  alignas(64) float v[16];
  _mm512_store_ps(v, a);
  for (int step = 1; step < 16; step *= 2)
    for (int i = 0; i < 16; i += 2 * step) v[i] = v[i] + v[i + step];
  return v[0];
}

// n_w weight rows against n_x activation rows: enough sums in flight to hide the latency of the additions.
template <class Type, int n_w, int n_x>
void tile(const uint8_t* w, const float* x, int64_t n_cols, float* out, int64_t stride) {
  __m512 acc[n_w][n_x];
  for (auto& row : acc)
    for (auto& a : row) a = _mm512_setzero_ps();
  const auto step = [&](int64_t i, __mmask16 mask) {
    __m512 xs[n_x];
    for (int t = 0; t < n_x; ++t) xs[t] = _mm512_maskz_loadu_ps(mask, x + t * n_cols + i);
    for (int r = 0; r < n_w; ++r) {
      const uint8_t* at = w + (r * n_cols + i) * Type::kBytes;
      if constexpr (n_x == 1)
        _mm_prefetch(reinterpret_cast<const char*>(at) + n_w * n_cols * Type::kBytes, _MM_HINT_T0);
      const __m512 ws = Type::load(at, mask);
      for (int t = 0; t < n_x; ++t) acc[r][t] = _mm512_add_ps(acc[r][t], _mm512_mul_ps(ws, xs[t]));
    }
  };
  const int64_t whole = n_cols / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16) step(i, 0xffff);
  // Masked lanes add 0 * 0, which changes no sum: none is ever -0.
  if (whole < n_cols) step(whole, __mmask16((1 << (n_cols - whole)) - 1));
  for (int r = 0; r < n_w; ++r)
    for (int t = 0; t < n_x; ++t) out[t * stride + r] = tree(acc[r][t]);
}

template <class Type, int n_w>
void rows(const uint8_t* w, const ActRows& x, float* out, int64_t stride) {
  int64_t t = 0;
  for (; t + 4 <= x.n_rows; t += 4) tile<Type, n_w, 4>(w, x.f32 + t * x.n_cols, x.n_cols, out + t * stride, stride);
  for (; t < x.n_rows; ++t) tile<Type, n_w, 1>(w, x.f32 + t * x.n_cols, x.n_cols, out + t * stride, stride);
}

template <class Type>
void product(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto* data = reinterpret_cast<const uint8_t*>(w.data);
  const int64_t row = w.n_cols * Type::kBytes;
  int64_t r = row_begin;
  for (; r + 4 <= row_end; r += 4) rows<Type, 4>(data + r * row, x, out + r, stride);
  for (; r < row_end; ++r) rows<Type, 1>(data + r * row, x, out + r, stride);
}

}  // namespace

void matmul_float(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  switch (w.type) {
    case QuantType::f32:
      return product<F32>(w, row_begin, row_end, x, out, stride);
    case QuantType::f16:
      return product<F16>(w, row_begin, row_end, x, out, stride);
    case QuantType::bf16:
      return product<Bf16>(w, row_begin, row_end, x, out, stride);
    default:
      KV_CHECK(false, "no float type");
  }
}

}  // namespace kvasir::avx512
