// Matrix product for float weights: element i goes to lane i mod 16 of its row's accumulator; no multiply-add is fused.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/x86/avx2_ops.h"
#include "kernels/x86/avx2_types.h"

namespace kvasir::avx2 {
namespace {

struct F32 {
  static constexpr int kBytes = 4;
  static __m256 load(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static __m256 load(const uint8_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
};
struct Bf16 {
  static constexpr int kBytes = 2;
  static __m256 load(const uint8_t* p) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }
};

// ((l0+l1)+(l2+l3)) + ...: neighbours first.
inline float tree(__m256 low, __m256 high) {
  alignas(32) float v[16];
  _mm256_store_ps(v, low);
  _mm256_store_ps(v + 8, high);
  for (int step = 1; step < 16; step *= 2)
    for (int i = 0; i < 16; i += 2 * step) v[i] = v[i] + v[i + step];
  return v[0];
}

// n_w weight rows against n_x activation rows: enough sums in flight to hide the latency of the additions.
template <class Type, int n_w, int n_x>
struct Tile {
  __m256 acc[n_w][n_x][2];

  Tile() {
    for (auto& row : acc)
      for (auto& a : row) a[0] = a[1] = _mm256_setzero_ps();
  }
  // 16 columns: of weight rows w_bytes apart, activation rows x_floats apart.
  void step(const uint8_t* w, int64_t w_bytes, const float* x, int64_t x_floats) {
    for (int half = 0; half < 2; ++half) {
      __m256 ws[n_w];
      for (int r = 0; r < n_w; ++r) ws[r] = Type::load(w + r * w_bytes + 8 * half * Type::kBytes);
      for (int t = 0; t < n_x; ++t) {
        const __m256 xs = _mm256_loadu_ps(x + t * x_floats + 8 * half);
        for (int r = 0; r < n_w; ++r) acc[r][t][half] = _mm256_add_ps(acc[r][t][half], _mm256_mul_ps(ws[r], xs));
      }
    }
  }
  // The last n < 16 columns, padded with zeros: 0 * 0 changes no sum, since none is ever -0.
  void rest(const uint8_t* w, int64_t w_bytes, const float* x, int64_t x_floats, int64_t n) {
    uint8_t w_rest[n_w][16 * Type::kBytes] = {};
    float x_rest[n_x][16] = {};
    for (int r = 0; r < n_w; ++r) std::memcpy(w_rest[r], w + r * w_bytes, size_t(n * Type::kBytes));
    for (int t = 0; t < n_x; ++t) std::memcpy(x_rest[t], x + t * x_floats, size_t(n) * sizeof(float));
    step(w_rest[0], 16 * Type::kBytes, x_rest[0], 16);
  }
};

template <class Type, int n_w, int n_x>
void tile(const uint8_t* w, const float* x, int64_t n_cols, float* out, int64_t stride) {
  Tile<Type, n_w, n_x> sums;
  const int64_t whole = n_cols / 16 * 16, w_bytes = n_cols * Type::kBytes;
  for (int64_t i = 0; i < whole; i += 16) sums.step(w + i * Type::kBytes, w_bytes, x + i, n_cols);
  if (whole < n_cols) sums.rest(w + whole * Type::kBytes, w_bytes, x + whole, n_cols, n_cols - whole);
  for (int r = 0; r < n_w; ++r)
    for (int t = 0; t < n_x; ++t) out[t * stride + r] = tree(sums.acc[r][t][0], sums.acc[r][t][1]);
}

template <class Type, int n_w>
void rows(const uint8_t* w, const ActRows& x, float* out, int64_t stride) {
  int64_t t = 0;
  for (; t + 2 <= x.n_rows; t += 2) tile<Type, n_w, 2>(w, x.f32 + t * x.n_cols, x.n_cols, out + t * stride, stride);
  if (t < x.n_rows) tile<Type, n_w, 1>(w, x.f32 + t * x.n_cols, x.n_cols, out + t * stride, stride);
}

template <class Type>
void product(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto* data = reinterpret_cast<const uint8_t*>(w.data);
  const int64_t row = w.n_cols * Type::kBytes;
  int64_t r = row_begin;
  for (; r + 2 <= row_end; r += 2) rows<Type, 2>(data + r * row, x, out + r, stride);
  if (r < row_end) rows<Type, 1>(data + r * row, x, out + r, stride);
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

}  // namespace kvasir::avx2
