// How AVX2 takes each packed type apart, 8 rows (half a line) at a time: codes, scales, offsets and minima.
// Everything here is in an anonymous namespace: it is compiled with AVX2 flags and must not be linked elsewhere.
//
// vpmaddubsw multiplies unsigned by signed bytes, adds neighbours, and saturates at 16 bits. So each type says how
// many of its results may be added before the sum must widen (kChain), from its largest code c: 2 * 127 * c * kChain
// stays below 2^15. Signed codes (kSigned) up to 128 go as |w| times the activation with w's sign: 2 * 127 * 128.
#pragma once
#include <cstdint>
#include <immintrin.h>

#include "kernels/x86/layout.h"

namespace kvasir::avx2 {
namespace {

inline constexpr int kHalfRows = 8;

// One half (0 or 1) of a packed block's 16 rows.
struct Half {
  const uint8_t* p;
  int half;

  // Bytes 4i ... 4i+3 of 8 rows, of the word field at this offset.
  __m256i line(int offset, int i) const {
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(p + offset + i * x86::kLineBytes + half * x86::kLineBytes / 2));
  }
  __m128i halves_bits(int offset) const {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + offset + half * kHalfRows * 2));
  }
  __m256 halves(int offset) const { return _mm256_cvtph_ps(halves_bits(offset)); }
  // A byte of 8 rows, as int32.
  __m256i bytes_of_rows(int offset) const {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + offset + half * kHalfRows)));
  }
};

inline __m256i bytes(int v) {
  return _mm256_set1_epi8(char(v));
}
inline __m256i low_nibbles(__m256i x) {
  return _mm256_and_si256(x, bytes(15));
}
inline __m256i high_nibbles(__m256i x) {
  return _mm256_and_si256(_mm256_srli_epi16(x, 4), bytes(15));
}
// a | (b & mask)
inline __m256i or_masked(__m256i a, __m256i b, __m256i mask) {
  return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}

// Shifts 16-bit words; n < 0 is to the right. Callers mask away what crosses bytes.
template <int n>
inline __m256i shift(__m256i x) {
  if constexpr (n >= 0)
    return _mm256_slli_epi16(x, n);
  else
    return _mm256_srli_epi16(x, -n);
}

// A vpshufb pattern that moves bytes within each 32-bit lane: byte b of the result is byte (pattern >> 8b & 3), or 0
// where the pattern's byte is 0x80. vpshufb counts from the start of 16 bytes, so the 4 lanes there differ by 4.
inline __m256i within_lanes(uint32_t pattern) {
  const uint32_t zeros = pattern & 0x80808080, ones = ~(zeros >> 7) & 0x01010101;
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi32(int(pattern), int(pattern + 4 * ones), int(pattern + 8 * ones), int(pattern + 12 * ones)));
}

// Bytes i and j of each lane as a pair of 16-bit numbers, or as their high bytes.
inline __m256i byte_pair_of(__m256i x, uint32_t i, uint32_t j) {
  return _mm256_shuffle_epi8(x, within_lanes(0x80008000 | i | j << 16));
}
inline __m256i high_byte_pair_of(__m256i x, uint32_t i, uint32_t j) {
  return _mm256_shuffle_epi8(x, within_lanes(0x00800080 | i << 8 | j << 24));
}

inline __m256i iq4_table() {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
}
inline __m256i fp4_table_plus_12() {
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

// ---- blocks of 32 ----------------------------------------------------------------------------------------------
// kBias is what the codes have too much; kMin tells whether there is an m. codes: w [8], quad by quad.

inline void nibble_lines(Half x, int offset, __m256i* w) {
  for (int i = 0; i < 4; ++i) {
    const __m256i line = x.line(offset, i);
    w[i] = low_nibbles(line);
    w[i + 4] = high_nibbles(line);
  }
}

inline void table_lines(Half x, int offset, __m256i table, __m256i* w) {
  nibble_lines(x, offset, w);
  for (int i = 0; i < 8; ++i) w[i] = _mm256_shuffle_epi8(table, w[i]);
}

// Puts bit c of each byte of h at bit 4 of w [c].
inline void or_fifth_bits(__m256i h, __m256i* w) {
  const __m256i mask = bytes(16);
  w[0] = or_masked(w[0], shift<4>(h), mask);
  w[1] = or_masked(w[1], shift<3>(h), mask);
  w[2] = or_masked(w[2], shift<2>(h), mask);
  w[3] = or_masked(w[3], shift<1>(h), mask);
  w[4] = or_masked(w[4], h, mask);
  w[5] = or_masked(w[5], shift<-1>(h), mask);
  w[6] = or_masked(w[6], shift<-2>(h), mask);
  w[7] = or_masked(w[7], shift<-3>(h), mask);
}

struct Q4_0 {
  static constexpr int kBytes = 18, kBias = 8, kChain = 8;
  static constexpr bool kMin = false, kSigned = false;
  static __m256 d(Half x) { return x.halves(0); }
  static void codes(Half x, __m256i* w) { nibble_lines(x, 32, w); }
};
struct Q4_1 {
  static constexpr int kBytes = 20, kBias = 0, kChain = 8;
  static constexpr bool kMin = true, kSigned = false;
  static __m256 d(Half x) { return x.halves(0); }
  static __m256 m(Half x) { return x.halves(32); }
  static void codes(Half x, __m256i* w) { nibble_lines(x, 64, w); }
};
struct Q5_0 {
  static constexpr int kBytes = 22, kBias = 16, kChain = 4;
  static constexpr bool kMin = false, kSigned = false;
  static __m256 d(Half x) { return x.halves(0); }
  static void codes(Half x, __m256i* w) {
    nibble_lines(x, 96, w);
    or_fifth_bits(x.line(32, 0), w);
  }
};
struct Q5_1 {
  static constexpr int kBytes = 24, kBias = 0, kChain = 4;
  static constexpr bool kMin = true, kSigned = false;
  static __m256 d(Half x) { return x.halves(0); }
  static __m256 m(Half x) { return x.halves(32); }
  static void codes(Half x, __m256i* w) {
    nibble_lines(x, 128, w);
    or_fifth_bits(x.line(64, 0), w);
  }
};
struct Q8_0 {
  static constexpr int kBytes = 34, kBias = 0, kChain = 1;
  static constexpr bool kMin = false, kSigned = true;
  static __m256 d(Half x) { return x.halves(0); }
  static void codes(Half x, __m256i* w) {
    for (int i = 0; i < 8; ++i) w[i] = _mm256_xor_si256(x.line(32, i), bytes(0x80));
  }
};
struct Iq4Nl {
  static constexpr int kBytes = 18, kBias = 0, kChain = 1;
  static constexpr bool kMin = false, kSigned = true;
  static __m256 d(Half x) { return x.halves(0); }
  static void codes(Half x, __m256i* w) { table_lines(x, 32, iq4_table(), w); }
};
struct Mxfp4 {
  static constexpr int kBytes = 17, kBias = 12, kChain = 4;
  static constexpr bool kMin = false, kSigned = false;
  // 2^(e-128), and 0 if e < 64.
  static __m256 d(Half x) {
    const __m256i e = x.bytes_of_rows(0), live = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(63));
    const __m256i power = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    return _mm256_castsi256_ps(_mm256_and_si256(power, live));
  }
  static void codes(Half x, __m256i* w) { table_lines(x, 16, fp4_table_plus_12(), w); }
};

// ---- blocks of 256 ---------------------------------------------------------------------------------------------

// What a block has besides its codes.
struct alignas(32) Scales {
  __m256i scale[16];  // int16, twice in each lane: of sub-block j, of 16 or 32 weights
  __m256i
      pair[8];  // int16: coefficients of the activations' sums over sub-blocks 2p and 2p + 1: minima, or scale * bias
  __m256 d;
  __m256 m;  // dmin
};

// kSub is the sub-block's size; kMin: the pairs are minima, else what the codes' bias adds; kBiased: there are pairs.
// codes<j>: sub-block j of 32, w [8] quad by quad.

// GGUF's 12 bytes of 6-bit scales and minima (Q4_K, Q5_K).
inline void scales_6_bit(Half x, int offset, Scales& s) {
  const __m256i a = x.line(offset, 0), b = x.line(offset, 1), c = x.line(offset, 2);
  const __m256i low6 = bytes(63), high2 = bytes(0x30);
  const __m256i sc[2] = {_mm256_and_si256(a, low6), or_masked(low_nibbles(c), _mm256_srli_epi16(a, 2), high2)};
  const __m256i mn[2] = {_mm256_and_si256(b, low6), or_masked(high_nibbles(c), _mm256_srli_epi16(b, 2), high2)};
  for (uint32_t j = 0; j < 8; ++j) s.scale[j] = byte_pair_of(sc[j / 4], j % 4, j % 4);
  for (uint32_t i = 0; i < 4; ++i) s.pair[i] = byte_pair_of(mn[i / 2], i % 2 * 2, i % 2 * 2 + 1);
}

// Sub-block j of 32 from lines of nibbles in which two sub-blocks share a line.
template <int j>
inline void nibble_sub_block(Half x, int offset, __m256i* w) {
  for (int q = 0; q < 8; ++q) {
    const __m256i line = x.line(offset, 8 * (j / 2) + q);
    w[q] = j % 2 ? high_nibbles(line) : low_nibbles(line);
  }
}

struct Q4K {
  static constexpr int kBytes = 144, kSub = 32, kChain = 8;
  static constexpr bool kMin = true, kSigned = false, kBiased = false;
  static void scales(Half x, Scales& s) {
    s.d = x.halves(0);
    s.m = x.halves(32);
    scales_6_bit(x, 64, s);
  }
  template <int j>
  static void codes(Half x, __m256i* w) {
    nibble_sub_block<j>(x, 256, w);
  }
};
struct Q5K {
  static constexpr int kBytes = 176, kSub = 32, kChain = 4;
  static constexpr bool kMin = true, kSigned = false, kBiased = false;
  static void scales(Half x, Scales& s) { Q4K::scales(x, s); }
  template <int j>
  static void codes(Half x, __m256i* w) {
    nibble_sub_block<j>(x, 768, w);
    for (int q = 0; q < 8; ++q) w[q] = or_masked(w[q], shift<4 - j>(x.line(256, q)), bytes(16));
  }
};
struct Q6K {
  static constexpr int kBytes = 210, kSub = 16, kChain = 2;
  static constexpr bool kMin = false, kSigned = false, kBiased = true;
  static void scales(Half x, Scales& s) {
    s.d = x.halves(0);
    for (uint32_t i = 0; i < 4; ++i) {
      const __m256i line = x.line(32, int(i));
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = _mm256_srai_epi16(high_byte_pair_of(line, j, j), 8);
      s.pair[2 * i] = _mm256_srai_epi16(high_byte_pair_of(line, 0, 1), 3);  // times 32
      s.pair[2 * i + 1] = _mm256_srai_epi16(high_byte_pair_of(line, 2, 3), 3);
    }
  }
  template <int j>
  static void codes(Half x, __m256i* w) {
    constexpr int half = j / 4, s = j % 4;
    for (int q = 0; q < 8; ++q) {
      const __m256i low = x.line(288, 16 * half + 8 * (s % 2) + q), high = x.line(2336, 8 * half + q);
      w[q] = or_masked(s / 2 ? high_nibbles(low) : low_nibbles(low), shift<4 - 2 * s>(high), bytes(0x30));
    }
  }
};

// Two bits a weight, four sub-blocks in a line (Q2_K, Q3_K).
template <int j>
inline void two_bit_sub_block(Half x, int offset, __m256i* w) {
  for (int q = 0; q < 8; ++q) w[q] = _mm256_and_si256(shift<-2 * (j % 4)>(x.line(offset, 8 * (j / 4) + q)), bytes(3));
}

struct Q2K {
  static constexpr int kBytes = 84, kSub = 16, kChain = 4;
  static constexpr bool kMin = true, kSigned = false, kBiased = false;
  static void scales(Half x, Scales& s) {
    s.d = x.halves(0);
    s.m = x.halves(32);
    for (uint32_t i = 0; i < 4; ++i) {
      const __m256i line = x.line(64, int(i)), sc = low_nibbles(line), mn = high_nibbles(line);
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = byte_pair_of(sc, j, j);
      s.pair[2 * i] = byte_pair_of(mn, 0, 1);
      s.pair[2 * i + 1] = byte_pair_of(mn, 2, 3);
    }
  }
  template <int j>
  static void codes(Half x, __m256i* w) {
    two_bit_sub_block<j>(x, 320, w);
  }
};
struct Q3K {
  static constexpr int kBytes = 110, kSub = 16, kChain = 4;
  static constexpr bool kMin = false, kSigned = false, kBiased = true;
  static void scales(Half x, Scales& s) {
    s.d = x.halves(0);
    const __m256i a = x.line(32, 0), b = x.line(32, 1), c = x.line(32, 2), high2 = bytes(0x30);
    const __m256i sc[4] = {or_masked(low_nibbles(a), _mm256_slli_epi16(c, 4), high2),
                           or_masked(low_nibbles(b), _mm256_slli_epi16(c, 2), high2),
                           or_masked(high_nibbles(a), c, high2),
                           or_masked(high_nibbles(b), _mm256_srli_epi16(c, 2), high2)};
    const __m256i bias = _mm256_set1_epi16(32);
    for (uint32_t i = 0; i < 4; ++i) {
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = _mm256_sub_epi16(byte_pair_of(sc[i], j, j), bias);
      for (uint32_t h = 0; h < 2; ++h)  // times 4, the codes' bias
        s.pair[2 * i + h] = _mm256_slli_epi16(_mm256_sub_epi16(byte_pair_of(sc[i], 2 * h, 2 * h + 1), bias), 2);
    }
  }
  template <int j>
  static void codes(Half x, __m256i* w) {
    two_bit_sub_block<j>(x, 224, w);
    for (int q = 0; q < 8; ++q) w[q] = or_masked(w[q], shift<2 - j>(x.line(1248, q)), bytes(4));
  }
};
struct Iq4Xs {
  static constexpr int kBytes = 136, kSub = 32, kChain = 1;
  static constexpr bool kMin = false, kSigned = true, kBiased = false;
  static void scales(Half x, Scales& s) {
    s.d = x.halves(0);
    const __m256i high = _mm256_cvtepu16_epi32(x.halves_bits(32)), low = x.line(64, 0);
    for (int j = 0; j < 8; ++j) {
      const __m256i h = _mm256_and_si256(_mm256_srli_epi32(high, 2 * j), _mm256_set1_epi32(3));
      const __m256i l = _mm256_and_si256(_mm256_srli_epi32(low, 4 * j), _mm256_set1_epi32(15));
      const __m256i code = _mm256_or_si256(l, _mm256_slli_epi32(h, 4));
      s.scale[j] = _mm256_sub_epi16(_mm256_or_si256(code, _mm256_slli_epi32(code, 16)), _mm256_set1_epi16(32));
    }
  }
  template <int j>
  static void codes(Half x, __m256i* w) {
    table_lines(x, 128 + 4 * j * x86::kLineBytes, iq4_table(), w);
  }
};

}  // namespace
}  // namespace kvasir::avx2
