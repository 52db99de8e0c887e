// Matrix product for types with blocks of 256: sub-block sums are scaled as integers, one f32 term per block.
#include "core/error.h"
#include "kernels/x86/avx2_dot.h"
#include "kernels/x86/avx2_ops.h"

namespace kvasir::avx2 {
namespace {

template <class Body>
inline void for_sub_blocks(Body body) {
  [&]<int... j>(std::integer_sequence<int, j...>) {
    (body(std::integral_constant<int, j>()), ...);
  }
  (std::make_integer_sequence<int, 8>());
}

// isum of sub-block j of 32, its scale or scales applied.
template <class Type, int j>
inline __m256i scaled(const Scales& s, const __m256i* w, const int8_t* q) {
  if constexpr (Type::kSub == 32)
    return dot_quads<Type, 0, 8>(w, q, s.scale[j]);
  else
    return _mm256_add_epi32(dot_quads<Type, 0, 4>(w, q, s.scale[2 * j]),
                            dot_quads<Type, 4, 4>(w, q, s.scale[2 * j + 1]));
}

// Sum over sub-blocks of pair coefficients times the activations' sums.
template <class Type>
inline __m256i pair_sum(const Scales& s, const int16_t* sums16) {
  __m256i sum = _mm256_setzero_si256();
  if constexpr (Type::kSub == 16) {
    for (int i = 0; i < 8; ++i)
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(s.pair[i], broadcast_quad(sums16 + 2 * i)));
  } else {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums16));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums16 + 8));
    const __m128i ones = _mm_set1_epi16(1);
    alignas(16) int16_t sums32[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(sums32),
                    _mm_packs_epi32(_mm_madd_epi16(low, ones), _mm_madd_epi16(high, ones)));
    for (int i = 0; i < 4; ++i)
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(s.pair[i], broadcast_quad(sums32 + 2 * i)));
  }
  return sum;
}

template <class Type>
inline __m256 term(const Scales& s, float dx, __m256i isum, const int16_t* sums16) {
  const __m256 x = _mm256_set1_ps(dx);
  if constexpr (Type::kBiased) isum = _mm256_sub_epi32(isum, pair_sum<Type>(s, sums16));
  const __m256 t = _mm256_mul_ps(_mm256_mul_ps(s.d, x), _mm256_cvtepi32_ps(isum));
  if constexpr (!Type::kMin)
    return t;
  else
    return _mm256_sub_ps(t, _mm256_mul_ps(_mm256_mul_ps(s.m, x), _mm256_cvtepi32_ps(pair_sum<Type>(s, sums16))));
}

template <class Type>
struct Kernel {
  static constexpr int kBlock = 256, kGroupBlock = Type::kBytes * x86::kGroupRows;

  template <int n>
  static void rows(const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t first, Accumulators<n>& acc) {
    for (int64_t b = 0; b < n_cols / 256; ++b, p += kGroupBlock) {
      if (first == 0) prefetch<kGroupBlock>(p);
      for (int h = 0; h < 2; ++h) {
        const Half half{p, h};
        Scales s;
        Type::scales(half, s);
        __m256i isum[n];
        for (auto& sum : isum) sum = _mm256_setzero_si256();
        for_sub_blocks([&](auto j) {
          __m256i w[8];
          Type::template codes<j>(half, w);
          for (int t = 0; t < n; ++t) {
            const int8_t* q = x.codes + (first + t) * n_cols + b * 256 + 32 * j;
            isum[t] = _mm256_add_epi32(isum[t], scaled<Type, j>(s, w, q));
          }
        });
        for (int t = 0; t < n; ++t) {
          const int64_t at = (first + t) * n_cols + b * 256;
          __m256& a = acc.a[b % 8][h][t];
          a = _mm256_add_ps(a, term<Type>(s, x.scales[at / 256], isum[t], x.sums + at / 16));
        }
      }
    }
  }
};

}  // namespace

void matmul_256(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto run = [&]<class Type>(Type) {
    product<Kernel<Type>>(w, row_begin, row_end, x.a8_256, x.n_rows, out, stride);
  };
  switch (w.type) {
    case QuantType::q2_k:
      return run(Q2K());
    case QuantType::q3_k:
      return run(Q3K());
    case QuantType::q4_k:
      return run(Q4K());
    case QuantType::q5_k:
      return run(Q5K());
    case QuantType::q6_k:
      return run(Q6K());
    case QuantType::iq4_xs:
      return run(Iq4Xs());
    default:
      KV_CHECK(false, "no type with blocks of 256");
  }
}

}  // namespace kvasir::avx2
