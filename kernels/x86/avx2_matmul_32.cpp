// Matrix product for types with blocks of 32: one f32 term per block, row and activation row.
#include "core/error.h"
#include "kernels/x86/avx2_dot.h"
#include "kernels/x86/avx2_ops.h"

namespace kvasir::avx2 {
namespace {

// The block's term from its integer sum; s is the sum of its activation codes.
template <class Type>
inline __m256 term(Half half, __m256 d, float dx, __m256i isum, [[maybe_unused]] int s) {
  const __m256 x = _mm256_set1_ps(dx);
  const __m256 t = _mm256_mul_ps(_mm256_mul_ps(d, x), _mm256_cvtepi32_ps(isum));
  if constexpr (!Type::kMin)
    return t;
  else
    return _mm256_add_ps(t, _mm256_mul_ps(_mm256_mul_ps(Type::m(half), x), _mm256_set1_ps(float(s))));
}

template <class Type>
struct Kernel {
  static constexpr int kBlock = 32, kGroupBlock = Type::kBytes * x86::kGroupRows;

  template <int n>
  static void rows(const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t first, Accumulators<n>& acc) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t b = 0; b < n_cols / 32; ++b, p += kGroupBlock) {
      if (first == 0) prefetch<kGroupBlock>(p);
      for (int h = 0; h < 2; ++h) {
        const Half half{p, h};
        __m256i w[8];
        Type::codes(half, w);
        const __m256 d = Type::d(half);
        for (int t = 0; t < n; ++t) {
          const int64_t at = (first + t) * n_cols + b * 32;
          const int s = x.sums[at / 16] + x.sums[at / 16 + 1];
          __m256i isum = dot_quads<Type, 0, 8>(w, x.codes + at, ones);
          if constexpr (Type::kBias != 0) isum = _mm256_sub_epi32(isum, _mm256_set1_epi32(Type::kBias * s));
          __m256& a = acc.a[b % 8][h][t];
          a = _mm256_add_ps(a, term<Type>(half, d, x.scales[at / 32], isum, s));
        }
      }
    }
  }
};

}  // namespace

void matmul_32(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto run = [&]<class Type>(Type) {
    product<Kernel<Type>>(w, row_begin, row_end, x.a8_32, x.n_rows, out, stride);
  };
  switch (w.type) {
    case QuantType::q4_0:
      return run(Q4_0());
    case QuantType::q4_1:
      return run(Q4_1());
    case QuantType::q5_0:
      return run(Q5_0());
    case QuantType::q5_1:
      return run(Q5_1());
    case QuantType::q8_0:
      return run(Q8_0());
    case QuantType::iq4_nl:
      return run(Iq4Nl());
    case QuantType::mxfp4:
      return run(Mxfp4());
    default:
      KV_CHECK(false, "no type with blocks of 32");
  }
}

}  // namespace kvasir::avx2
