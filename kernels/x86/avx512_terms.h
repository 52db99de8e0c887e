// The f32 term of a block from its integer sums, and the loop over sub-blocks: the same for vectors (avx512) and tiles
// (amx). In an anonymous namespace, as avx512_types.h.
#pragma once
#include <utility>

#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

// Calls body(integral_constant j) for j = 0 ... 7: sub-blocks of 32.
template <class Body>
inline void for_sub_blocks(Body body) {
  [&]<int... j>(std::integer_sequence<int, j...>) {
    (body(std::integral_constant<int, j>()), ...);
  }
  (std::make_integer_sequence<int, 8>());
}

// Blocks of 256: from the scaled sum of codes and the sum of pair coefficients times activation sums.
template <class Type>
inline __m512 term(const Scales& s, float dx, __m512i isum, __m512i pairs) {
  const __m512 x = _mm512_set1_ps(dx);
  if constexpr (Type::kMin) {
    const __m512 t = _mm512_mul_ps(_mm512_mul_ps(s.d, x), _mm512_cvtepi32_ps(isum));
    return _mm512_sub_ps(t, _mm512_mul_ps(_mm512_mul_ps(s.m, x), _mm512_cvtepi32_ps(pairs)));
  } else {
    return _mm512_mul_ps(_mm512_mul_ps(s.d, x), _mm512_cvtepi32_ps(_mm512_sub_epi32(isum, pairs)));
  }
}

// Blocks of 32: from the sum of codes, without their bias, and s, the sum of the activation codes.
template <class Type>
inline __m512 term(__m512 d, [[maybe_unused]] __m512 m, float dx, __m512i isum, [[maybe_unused]] int s) {
  const __m512 x = _mm512_set1_ps(dx);
  const __m512 t = _mm512_mul_ps(_mm512_mul_ps(d, x), _mm512_cvtepi32_ps(isum));
  if constexpr (!Type::kMin)
    return t;
  else
    return _mm512_add_ps(t, _mm512_mul_ps(_mm512_mul_ps(m, x), _mm512_set1_ps(float(s))));
}

template <class Type>
inline __m512 minima(const uint8_t* p) {
  if constexpr (Type::kMin)
    return Type::m(p);
  else
    return _mm512_setzero_ps();
}

}  // namespace
}  // namespace kvasir::avx512
