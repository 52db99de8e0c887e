// What the AVX2 products for blocks of 32 and of 256 share: byte products, accumulators, and the loop over groups of 16
// weight rows and tiles of activation rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <immintrin.h>

#include "kernels/ops.h"
#include "kernels/x86/avx2_types.h"

namespace kvasir::avx2 {
namespace {

using Quad [[gnu::may_alias]] = int32_t;

inline __m256i broadcast_quad(const void* q) {
  return _mm256_set1_epi32(*static_cast<const Quad*>(q));
}

// 8 x 4 codes times the 4 signed bytes at q, neighbours added: int16, exact (see kChain).
template <class Type>
inline __m256i byte_products(__m256i w, const int8_t* q) {
  const __m256i x = broadcast_quad(q);
  if constexpr (Type::kSigned)
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  else
    return _mm256_maddubs_epi16(w, x);
}

// Sum over quads [begin, begin + n) of w . q, each pair of 16-bit sums multiplied by the pair of factors.
template <class Type, int begin, int n>
inline __m256i dot_quads(const __m256i* w, const int8_t* q, __m256i factors) {
  __m256i sum = _mm256_setzero_si256();
  for (int c = begin; c < begin + n; c += Type::kChain) {
    __m256i chain = byte_products<Type>(w[c], q + 4 * c);
    for (int i = 1; i < std::min(Type::kChain, n); ++i)
      chain = _mm256_add_epi16(chain, byte_products<Type>(w[c + i], q + 4 * (c + i)));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(chain, factors));
  }
  return sum;
}

// Asks for the n_bytes of weights that come a few blocks later: see avx512_dot.h.
constexpr int64_t kPrefetchBytes = 6144;
template <int n_bytes>
inline void prefetch(const uint8_t* p) {
  for (int i = 0; i < n_bytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes + i, _MM_HINT_T0);
}

// Terms of block b are added to [b % 8] of their half and activation row.
template <int n>
struct alignas(32) Accumulators {
  __m256 a[8][2][n];

  Accumulators() {
    for (auto& halves : a)
      for (auto& rows : halves)
        for (auto& lane : rows) lane = _mm256_setzero_ps();
  }
  // The pairwise tree; the first n_rows of 16 weight rows to out [t * stride + r].
  void store(int64_t n_rows, float* out, int64_t stride) const {
    for (int t = 0; t < n; ++t) {
      alignas(32) float rows[2 * kHalfRows];
      for (int h = 0; h < 2; ++h) {
        const __m256 low = _mm256_add_ps(_mm256_add_ps(a[0][h][t], a[1][h][t]), _mm256_add_ps(a[2][h][t], a[3][h][t]));
        const __m256 high = _mm256_add_ps(_mm256_add_ps(a[4][h][t], a[5][h][t]), _mm256_add_ps(a[6][h][t], a[7][h][t]));
        _mm256_store_ps(rows + h * kHalfRows, _mm256_add_ps(low, high));
      }
      std::copy_n(rows, n_rows, out + t * stride);
    }
  }
};

// A product of one type: Kernel has kGroupBlock (bytes of a packed block), kBlock, and
//   rows<n>(p, x, n_cols, t, acc)    one group against activation rows [t, t + n)
// Up to 4 rows at a time: with more, codes and sums no longer fit the 16 registers.
template <class Kernel>
inline void product(const Weights& w, int64_t row_begin, int64_t row_end, const A8Rows& x, int64_t n_rows, float* out,
                    int64_t stride) {
  const int64_t group_bytes = w.n_cols / Kernel::kBlock * Kernel::kGroupBlock;
  for (int64_t r = row_begin; r < row_end; r += x86::kGroupRows) {
    const auto* p = reinterpret_cast<const uint8_t*>(w.data) + r / x86::kGroupRows * group_bytes;
    const int64_t n_weight_rows = std::min<int64_t>(x86::kGroupRows, row_end - r);
    const auto run = [&]<int n>(std::integral_constant<int, n>, int64_t t) {
      Accumulators<n> acc;
      Kernel::template rows<n>(p, x, w.n_cols, t, acc);
      acc.store(n_weight_rows, out + t * stride + r, stride);
    };
    int64_t t = 0;
    for (; t + 4 <= n_rows; t += 4) run(std::integral_constant<int, 4>(), t);
    if (n_rows - t >= 2) {
      run(std::integral_constant<int, 2>(), t);
      t += 2;
    }
    if (t < n_rows) run(std::integral_constant<int, 1>(), t);
  }
}

}  // namespace
}  // namespace kvasir::avx2
