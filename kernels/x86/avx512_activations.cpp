// The ops around matmul for AVX-512: A8, SiLU, and the fixed-point combine. Sixteen lanes do what
// kernels/reference/functions.cpp does with one; every multiply, add and subtract is an instruction of its own.
#include <bit>
#include <cstring>
#include <immintrin.h>

#include "kernels/x86/avx512_ops.h"

namespace kvasir::avx512 {
namespace {

__m512 all(float x) {
  return _mm512_set1_ps(x);
}

__m512 recip(__m512 d) {
  __m512 y = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(0x7EF311C7), _mm512_castps_si512(d)));
  for (int i = 0; i < 3; ++i) y = _mm512_mul_ps(y, _mm512_sub_ps(all(2), _mm512_mul_ps(d, y)));
  return y;
}

__m512 multiply_add(__m512 a, __m512 b, float c) {  // two roundings
  return _mm512_add_ps(_mm512_mul_ps(a, b), all(c));
}

__m512 exp(__m512 x) {
  const __m512 n =
      _mm512_roundscale_ps(_mm512_mul_ps(x, all(1.44269504F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_sub_ps(x, _mm512_mul_ps(n, all(0.693359375F)));
  r = _mm512_sub_ps(r, _mm512_mul_ps(n, all(-2.12194440e-4F)));
  __m512 p = all(1.9875691500e-4F);
  p = multiply_add(p, r, 1.3981999507e-3F);
  p = multiply_add(p, r, 8.3334519073e-3F);
  p = multiply_add(p, r, 4.1665795894e-2F);
  p = multiply_add(p, r, 1.6666665459e-1F);
  p = multiply_add(p, r, 5.0000001201e-1F);
  const __m512 e = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), all(1));
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_mul_ps(e, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
}

// NaN passes: max keeps its second operand, so the sigmoid is finite and g * sigmoid is NaN.
__m512 silu(__m512 g) {
  const __m512 c = _mm512_min_ps(_mm512_max_ps(g, all(-40)), all(40));
  return _mm512_mul_ps(g, recip(_mm512_add_ps(all(1), exp(_mm512_sub_ps(_mm512_setzero_ps(), c)))));
}

__m512i abs_bits(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// Magnitudes order as integers, with infinity and then NaN above all that is finite.
constexpr uint32_t kInfinityBits = 0x7f800000;

// n of 16 lanes.
__mmask16 lanes(int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : __mmask16((1 << n) - 1);
}

// 16 codes from 16 activations. cvtps rounds half to even, as MXCSR has it; the narrowing saturates above at 127.
__m128i codes_of_16(const float* x, __m512 inverse) {
  const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
  return _mm_max_epi8(_mm512_cvtsepi32_epi8(q), _mm_set1_epi8(-127));
}

// The sum of 16 codes.
int16_t sum_of_16(__m128i codes) {
  // Plus 128 as unsigned bytes; their sums of 8 are one instruction.
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(codes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return int16_t(_mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) - 16 * 128);
}

bool quantize_block(const float* x, int block, int8_t* codes, float* scale, int16_t* sums) {
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < block; i += 16) most = _mm512_max_epu32(most, abs_bits(_mm512_loadu_ps(x + i)));
  const uint32_t bits = _mm512_reduce_max_epu32(most);
  if (bits >= kInfinityBits) return false;
  const auto amax = std::bit_cast<float>(bits);
  if (amax < 0x1p-60F) {
    *scale = 0;
    std::memset(codes, 0, size_t(block));
    std::memset(sums, 0, size_t(block) / 16 * sizeof *sums);
    return true;
  }
  const float d = amax * 0.007874016F;
  const __m512 inverse = recip(all(d));
  for (int i = 0; i < block; i += 16) {
    const __m128i q = codes_of_16(x + i, inverse);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), q);
    sums[i / 16] = sum_of_16(q);
  }
  *scale = d;
  return true;
}

// int64(rint(v * 2^24)) of 8 values is added. The product is exact, and the conversion rounds half to even.
void add_eight(__m256 v, __mmask8 mask, int64_t* sums) {
  const __m512i c = _mm512_cvtps_epi64(_mm256_mul_ps(v, _mm256_set1_ps(0x1p24F)));
  _mm512_mask_storeu_epi64(sums, mask, _mm512_add_epi64(_mm512_maskz_loadu_epi64(mask, sums), c));
}

}  // namespace

bool quantize_a8(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums) {
  for (int64_t b = 0; b < n / block; ++b) {
    const int64_t at = b * block;
    if (!quantize_block(x + at, block, codes + at, scales + b, sums + at / 16)) return false;
  }
  return true;
}

void silu_mul(const float* gate, const float* up, int64_t n, float* h) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(mask, gate + i), u = _mm512_maskz_loadu_ps(mask, up + i);
    _mm512_mask_storeu_ps(h + i, mask, _mm512_mul_ps(silu(g), u));
  }
}

bool add_fixed(float weight, const float* y, int64_t n, int64_t* sums) {
  __mmask16 bad = 0;  // lanes out of range, or NaN
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = lanes(n - i);
    const __m512 v = _mm512_mul_ps(all(weight), _mm512_maskz_loadu_ps(mask, y + i));
    bad |= _mm512_mask_cmp_ps_mask(mask, _mm512_abs_ps(v), all(0x1p38F), _CMP_NLT_UQ);
    add_eight(_mm512_castps512_ps256(v), __mmask8(mask), sums + i);
    if (n - i > 8) add_eight(_mm512_extractf32x8_ps(v, 1), __mmask8(mask >> 8), sums + i + 8);
  }
  return bad == 0;
}

void fixed_to_f32(const int64_t* sums, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += 8) {
    const auto mask = __mmask8(lanes(n - i));
    const __m256 v = _mm512_cvtepi64_ps(_mm512_maskz_loadu_epi64(mask, sums + i));
    _mm256_mask_storeu_ps(out + i, mask, _mm256_mul_ps(v, _mm256_set1_ps(0x1p-24F)));
  }
}

}  // namespace kvasir::avx512
