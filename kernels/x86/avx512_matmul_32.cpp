// Matrix product for types with blocks of 32: one f32 term per block, row and activation row.
#include <algorithm>

#include "core/error.h"
#include "kernels/x86/avx512_dot.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

// Block b of the packed group at p against activation rows [0, n) of x (whose pointers stand at the first of them).
template <class Type>
inline void block_terms(const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t b, int64_t n, __m512* acc) {
  __m512i w[8];
  Type::codes(p, w);
  const __m512 d = Type::d(p);
  [[maybe_unused]] __m512 m;
  if constexpr (Type::kMin) m = Type::m(p);
  const int64_t n_blocks = n_cols / 32;
  for (int64_t t = 0; t < n; ++t) {
    const int8_t* q = x.codes + t * n_cols + b * 32;
    const int16_t* sums = x.sums + t * (n_cols / 16) + b * 2;
    const int s = sums[0] + sums[1];
    __m512i isum = _mm512_set1_epi32(-Type::kBias * s);
    for (int c = 0; c < 8; ++c) dot_quad(isum, w[c], q + 4 * c);
    const __m512 dx = _mm512_set1_ps(x.scales[t * n_blocks + b]);
    __m512 term = _mm512_mul_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(isum));
    if constexpr (Type::kMin) term = _mm512_add_ps(term, _mm512_mul_ps(_mm512_mul_ps(m, dx), _mm512_set1_ps(float(s))));
    acc[t] = _mm512_add_ps(acc[t], term);
  }
}

// A8 rows from row t on.
A8Rows rows_from(const A8Rows& x, int64_t t, int64_t n_cols) {
  return {x.codes + t * n_cols, x.scales + t * (n_cols / 32), x.sums + t * (n_cols / 16), 32};
}

template <class Type>
void product(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const int64_t n_blocks = w.n_cols / 32, block_bytes = Type::kBytes * x86::kGroupRows;
  for_groups(w.data, n_blocks * block_bytes, row_begin, row_end, [&](const uint8_t* p, int64_t r, __mmask16 mask) {
    Accumulators acc;
    for (int64_t t = 0; t < x.n_rows; t += kTile) {
      const int64_t n = std::min<int64_t>(kTile, x.n_rows - t);
      const A8Rows rows = rows_from(x.a8_32, t, w.n_cols);
      acc.clear(n);
      for (int64_t b = 0; b < n_blocks; ++b) block_terms<Type>(p + b * block_bytes, rows, w.n_cols, b, n, acc.a[b % 8]);
      acc.store(n, mask, out + t * stride + r, stride);
    }
  });
}

}  // namespace

void matmul_32(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  switch (w.type) {
    case QuantType::q4_0:
      return product<Q4_0>(w, row_begin, row_end, x, out, stride);
    case QuantType::q4_1:
      return product<Q4_1>(w, row_begin, row_end, x, out, stride);
    case QuantType::q5_0:
      return product<Q5_0>(w, row_begin, row_end, x, out, stride);
    case QuantType::q5_1:
      return product<Q5_1>(w, row_begin, row_end, x, out, stride);
    case QuantType::q8_0:
      return product<Q8_0>(w, row_begin, row_end, x, out, stride);
    case QuantType::iq4_nl:
      return product<Iq4Nl>(w, row_begin, row_end, x, out, stride);
    case QuantType::mxfp4:
      return product<Mxfp4>(w, row_begin, row_end, x, out, stride);
    default:
      KV_CHECK(false, "no type with blocks of 32");
  }
}

}  // namespace kvasir::avx512
