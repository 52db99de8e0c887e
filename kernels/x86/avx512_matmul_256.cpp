// Matrix product for types with blocks of 256: sub-blocks are dotted and scaled as integers, then one f32 term per
// block, row and activation row.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "kernels/x86/avx512_dot.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

// What the inner loops need of activation rows [0, n) at one block.
struct BlockRows {
  const int8_t* codes;  // [t * n_cols]
  const int16_t* sums;  // [t * n_cols / 16]
  const float* scales;  // [t * n_cols / 256]
  int64_t n_cols;
  int64_t n;
};

// isum [t] += scaled dot product of sub-block j of 32.
template <class Type, int j>
inline void sub_block(const uint8_t* p, const Scales& s, const BlockRows& x, __m512i* isum) {
  __m512i w[8];
  Type::template codes<j>(p, w);
  for (int64_t t = 0; t < x.n; ++t) {
    const int8_t* q = x.codes + t * x.n_cols + 32 * j;
    if constexpr (Type::kSub == 32) {
      __m512i dot = _mm512_setzero_si512();
      for (int c = 0; c < 8; ++c) dot_quad(dot, w[c], q + 4 * c);
      isum[t] = _mm512_add_epi32(isum[t], _mm512_mullo_epi32(dot, s.scale[j]));
    } else {
      __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();
      for (int c = 0; c < 4; ++c) dot_quad(low, w[c], q + 4 * c);
      for (int c = 4; c < 8; ++c) dot_quad(high, w[c], q + 4 * c);
      low = _mm512_mullo_epi32(low, s.scale[2 * j]);
      isum[t] = _mm512_add_epi32(isum[t], _mm512_add_epi32(low, _mm512_mullo_epi32(high, s.scale[2 * j + 1])));
    }
  }
}

template <class Type>
inline void block_terms(const uint8_t* p, const BlockRows& x, __m512i* isum, __m512* acc) {
  Scales s;
  Type::scales(p, s);
  for (int64_t t = 0; t < x.n; ++t) isum[t] = _mm512_setzero_si512();
  [&]<int... j>(std::integer_sequence<int, j...>) {
    (sub_block<Type, j>(p, s, x, isum), ...);
  }
  (std::make_integer_sequence<int, 8>());
  for (int64_t t = 0; t < x.n; ++t) {
    const int16_t* sums = x.sums + t * (x.n_cols / 16);
    __m512i pairs = _mm512_setzero_si512();
    for (int i = 0; i < 8; ++i) dot_pair(pairs, s.pair[i], sums + 2 * i);
    const __m512 dx = _mm512_set1_ps(x.scales[t * (x.n_cols / 256)]);
    const __m512i sum = Type::kMin ? isum[t] : _mm512_sub_epi32(isum[t], pairs);
    __m512 term = _mm512_mul_ps(_mm512_mul_ps(s.d, dx), _mm512_cvtepi32_ps(sum));
    if constexpr (Type::kMin)
      term = _mm512_sub_ps(term, _mm512_mul_ps(_mm512_mul_ps(s.m, dx), _mm512_cvtepi32_ps(pairs)));
    acc[t] = _mm512_add_ps(acc[t], term);
  }
}

template <class Type>
void product(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const int64_t n_blocks = w.n_cols / 256, block_bytes = Type::kBytes * x86::kGroupRows;
  const A8Rows& a8 = x.a8_256;
  for_groups(w.data, n_blocks * block_bytes, row_begin, row_end, [&](const uint8_t* p, int64_t r, __mmask16 mask) {
    Accumulators acc;
    alignas(64) __m512i isum[kTile];
    for (int64_t t = 0; t < x.n_rows; t += kTile) {
      const int64_t n = std::min<int64_t>(kTile, x.n_rows - t);
      acc.clear(n);
      for (int64_t b = 0; b < n_blocks; ++b) {
        const int64_t at = t * w.n_cols + b * 256;
        const BlockRows rows{a8.codes + at, a8.sums + at / 16, a8.scales + at / 256, w.n_cols, n};
        block_terms<Type>(p + b * block_bytes, rows, isum, acc.a[b % 8]);
      }
      acc.store(n, mask, out + t * stride + r, stride);
    }
  });
}

}  // namespace

void matmul_256(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  switch (w.type) {
    case QuantType::q2_k:
      return product<Q2K>(w, row_begin, row_end, x, out, stride);
    case QuantType::q3_k:
      return product<Q3K>(w, row_begin, row_end, x, out, stride);
    case QuantType::q4_k:
      return product<Q4K>(w, row_begin, row_end, x, out, stride);
    case QuantType::q5_k:
      return product<Q5K>(w, row_begin, row_end, x, out, stride);
    case QuantType::q6_k:
      return product<Q6K>(w, row_begin, row_end, x, out, stride);
    case QuantType::iq4_xs:
      return product<Iq4Xs>(w, row_begin, row_end, x, out, stride);
    default:
      KV_CHECK(false, "no type with blocks of 256");
  }
}

}  // namespace kvasir::avx512
