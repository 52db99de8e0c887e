// The ops around matmul for AVX2: A8, flushing, SiLU, and the fixed-point combine. Eight lanes do what
// kernels/reference/functions.cpp does with one; every multiply, add and subtract is an instruction of its own.
#include <bit>
#include <cstring>
#include <immintrin.h>

#include "kernels/x86/avx2_ops.h"

namespace kvasir::avx2 {
namespace {

__m256 all(float x) {
  return _mm256_set1_ps(x);
}

__m256 recip(__m256 d) {
  __m256 y = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(0x7EF311C7), _mm256_castps_si256(d)));
  for (int i = 0; i < 3; ++i) y = _mm256_mul_ps(y, _mm256_sub_ps(all(2), _mm256_mul_ps(d, y)));
  return y;
}

__m256 multiply_add(__m256 a, __m256 b, float c) {  // two roundings
  return _mm256_add_ps(_mm256_mul_ps(a, b), all(c));
}

__m256 exp(__m256 x) {
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, all(1.44269504F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_sub_ps(x, _mm256_mul_ps(n, all(0.693359375F)));
  r = _mm256_sub_ps(r, _mm256_mul_ps(n, all(-2.12194440e-4F)));
  __m256 p = all(1.9875691500e-4F);
  p = multiply_add(p, r, 1.3981999507e-3F);
  p = multiply_add(p, r, 8.3334519073e-3F);
  p = multiply_add(p, r, 4.1665795894e-2F);
  p = multiply_add(p, r, 1.6666665459e-1F);
  p = multiply_add(p, r, 5.0000001201e-1F);
  const __m256 e = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r), all(1));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(e, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

// NaN passes: max keeps its second operand, so the sigmoid is finite and g * sigmoid is NaN.
__m256 silu(__m256 g) {
  const __m256 c = _mm256_min_ps(_mm256_max_ps(g, all(-40)), all(40));
  return _mm256_mul_ps(g, recip(_mm256_add_ps(all(1), exp(_mm256_sub_ps(_mm256_setzero_ps(), c)))));
}

__m256i abs_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

uint32_t largest(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return uint32_t(_mm_cvtsi128_si32(m));
}

// Magnitudes order as integers, with infinity and then NaN above all that is finite.
constexpr uint32_t kInfinityBits = 0x7f800000;

// The last n < 8 values of a row, the other lanes 0. By copying: masked moves at the end of a page are slow on some
// CPUs, and qemu faults on them.
__m256 load_rest(const float* x, int64_t n) {
  alignas(32) float lanes[8] = {};
  std::memcpy(lanes, x, size_t(n) * sizeof *x);
  return _mm256_load_ps(lanes);
}

void store_rest(float* out, int64_t n, __m256 v) {
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, v);
  std::memcpy(out, lanes, size_t(n) * sizeof *out);
}

// 32 codes from 32 activations. cvtps rounds half to even, as MXCSR has it; packs saturates above at 127.
__m256i codes_of_32(const float* x, __m256 inverse) {
  const auto eight = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse)); };
  const __m256i low = _mm256_packs_epi32(eight(0), eight(1)), high = _mm256_packs_epi32(eight(2), eight(3));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs works within 128-bit halves
  const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  return _mm256_max_epi8(codes, _mm256_set1_epi8(-127));
}

// The sums of the two halves of 32 codes.
void sums_of_32(__m256i codes, int16_t* sums) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i s = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  s = _mm256_hadd_epi32(s, s);
  s = _mm256_hadd_epi32(s, s);
  sums[0] = int16_t(_mm256_extract_epi32(s, 0));
  sums[1] = int16_t(_mm256_extract_epi32(s, 4));
}

bool quantize_block(const float* x, int block, int8_t* codes, float* scale, int16_t* sums) {
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < block; i += 8) most = _mm256_max_epu32(most, abs_bits(_mm256_loadu_ps(x + i)));
  const uint32_t bits = largest(most);
  if (bits >= kInfinityBits) return false;
  const auto amax = std::bit_cast<float>(bits);
  if (amax < 0x1p-60F) {
    *scale = 0;
    std::memset(codes, 0, block);
    std::memset(sums, 0, block / 16 * sizeof *sums);
    return true;
  }
  const float d = amax * 0.007874016F;
  const __m256 inverse = recip(all(d));
  for (int i = 0; i < block; i += 32) {
    const __m256i q = codes_of_32(x + i, inverse);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), q);
    sums_of_32(q, sums + i / 16);
  }
  *scale = d;
  return true;
}

__m256 flush(__m256 x, __m256i& most) {
  const __m256i bits = abs_bits(x);
  most = _mm256_max_epu32(most, bits);
  return _mm256_and_ps(x, _mm256_cmp_ps(_mm256_castsi256_ps(bits), all(0x1p-40F), _CMP_GE_OQ));
}

// int64(t) of 4 integers |t| < 2^62 held as double: floor(t / 2^32) and the rest, both exact.
__m256i to_int64(__m256d t) {
  const __m256d high = _mm256_floor_pd(_mm256_mul_pd(t, _mm256_set1_pd(0x1p-32)));
  const __m256d low = _mm256_sub_pd(t, _mm256_mul_pd(high, _mm256_set1_pd(0x1p32)));
  const __m256i low_bits = _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(low, _mm256_set1_pd(0x1p52))),
                                            _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
  const __m256i high_bits = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(high)), 32);
  return _mm256_add_epi64(high_bits, low_bits);
}

void add_to(int64_t* sums, __m256i c) {
  auto* at = reinterpret_cast<__m256i*>(sums);
  _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), c));
}

// Eight values; false if one is out of range.
bool add_eight(__m256 weight, __m256 y, int64_t* sums) {
  const __m256 v = _mm256_mul_ps(weight, y);
  const __m256 in_range = _mm256_cmp_ps(_mm256_castsi256_ps(abs_bits(v)), all(0x1p38F), _CMP_LT_OQ);  // not for NaN
  if (_mm256_movemask_ps(in_range) != 0xff) return false;
  const __m256 t = _mm256_round_ps(_mm256_mul_ps(v, all(0x1p24F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  add_to(sums, to_int64(_mm256_cvtps_pd(_mm256_castps256_ps128(t))));
  add_to(sums + 4, to_int64(_mm256_cvtps_pd(_mm256_extractf128_ps(t, 1))));
  return true;
}

}  // namespace

bool quantize_a8(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums) {
  for (int64_t b = 0; b < n / block; ++b) {
    const int64_t at = b * block;
    if (!quantize_block(x + at, block, codes + at, scales + b, sums + at / 16)) return false;
  }
  return true;
}

bool flush_f32(const float* x, int64_t n, float* out) {
  __m256i most = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, flush(_mm256_loadu_ps(x + i), most));
  if (i < n) store_rest(out + i, n - i, flush(load_rest(x + i, n - i), most));
  return largest(most) < kInfinityBits;
}

void silu_mul(const float* gate, const float* up, int64_t n, float* h) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(h + i, _mm256_mul_ps(silu(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
  if (i == n) return;
  const __m256 g = load_rest(gate + i, n - i), u = load_rest(up + i, n - i);
  store_rest(h + i, n - i, _mm256_mul_ps(silu(g), u));
}

bool add_fixed(float weight, const float* y, int64_t n, int64_t* sums) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    if (!add_eight(all(weight), _mm256_loadu_ps(y + i), sums + i)) return false;
  if (i == n) return true;
  int64_t rest[8] = {};
  std::memcpy(rest, sums + i, size_t(n - i) * sizeof *sums);
  if (!add_eight(all(weight), load_rest(y + i, n - i), rest)) return false;
  std::memcpy(sums + i, rest, size_t(n - i) * sizeof *sums);
  return true;
}

// AVX2 has no conversion of 64-bit integers but the scalar one; it rounds once, as the law wants.
void fixed_to_f32(const int64_t* sums, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = float(sums[i]) * 0x1p-24F;
}

}  // namespace kvasir::avx2
