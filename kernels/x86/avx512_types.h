// How AVX-512 takes each packed type apart: 8 lines of unsigned codes for 32 weights, scales, offsets and minima.
// Everything here is in an anonymous namespace: it is compiled with AVX-512 flags and must not be linked elsewhere.
#pragma once
#include <cstdint>
#include <immintrin.h>

#include "kernels/x86/layout.h"

namespace kvasir::avx512 {
namespace {

inline __m512i line(const uint8_t* p, int i) {
  return _mm512_loadu_si512(p + i * x86::kLineBytes);
}
inline __m512 halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline __m512i bytes(int v) {
  return _mm512_set1_epi8(char(v));
}
inline __m512i low_nibbles(__m512i x) {
  return _mm512_and_si512(x, bytes(15));
}
inline __m512i high_nibbles(__m512i x) {
  return _mm512_and_si512(_mm512_srli_epi16(x, 4), bytes(15));
}
// a | (b & mask)
inline __m512i or_masked(__m512i a, __m512i b, __m512i mask) {
  return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}

// Shifts 16-bit words; n < 0 is to the right. Callers mask away what crosses bytes.
template <int n>
inline __m512i shift(__m512i x) {
  if constexpr (n >= 0)
    return _mm512_slli_epi16(x, n);
  else
    return _mm512_srli_epi16(x, -n);
}

// A vpshufb pattern that moves bytes within each 32-bit lane: byte b of the result is byte (pattern >> 8b & 3), or 0
// where the pattern's byte is 0x80. vpshufb counts from the start of 16 bytes, so the 4 lanes there differ by 4.
inline __m512i within_lanes(uint32_t pattern) {
  const uint32_t zeros = pattern & 0x80808080, ones = ~(zeros >> 7) & 0x01010101;
  return _mm512_broadcast_i32x4(
      _mm_setr_epi32(int(pattern), int(pattern + 4 * ones), int(pattern + 8 * ones), int(pattern + 12 * ones)));
}

// Byte i of each 32-bit lane, as int32.
inline __m512i byte_of(__m512i x, uint32_t i) {
  return _mm512_shuffle_epi8(x, within_lanes(0x80808000 | i));
}
inline __m512i signed_byte_of(__m512i x, uint32_t i) {
  return _mm512_srai_epi32(_mm512_shuffle_epi8(x, within_lanes(i << 24 | 0x808080)), 24);
}
// Bytes i and j of each lane as a pair of 16-bit numbers, or as their high bytes.
inline __m512i byte_pair_of(__m512i x, uint32_t i, uint32_t j) {
  return _mm512_shuffle_epi8(x, within_lanes(0x80008000 | i | j << 16));
}
inline __m512i high_byte_pair_of(__m512i x, uint32_t i, uint32_t j) {
  return _mm512_shuffle_epi8(x, within_lanes(0x00800080 | i << 8 | j << 24));
}

// The IQ4 and MXFP4 tables plus an offset that makes them unsigned, 16 bytes in each 128-bit part.
inline __m512i iq4_table() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, char(129), char(141), char(153),
                                              char(166), char(181), char(197), char(217), char(241)));
}
inline __m512i fp4_table() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

// ---- blocks of 32 ----------------------------------------------------------------------------------------------
// kBias is what the unsigned codes have too much; kMin tells whether there is an m. codes: w [8], quad by quad.

inline void nibble_lines(const uint8_t* p, __m512i* w) {
  for (int i = 0; i < 4; ++i) {
    const __m512i x = line(p, i);
    w[i] = low_nibbles(x);
    w[i + 4] = high_nibbles(x);
  }
}

inline void table_lines(const uint8_t* p, __m512i table, __m512i* w) {
  nibble_lines(p, w);
  for (int i = 0; i < 8; ++i) w[i] = _mm512_shuffle_epi8(table, w[i]);
}

// Puts bit c of each byte of h at bit 4 of w [c].
inline void or_fifth_bits(__m512i h, __m512i* w) {
  const __m512i mask = bytes(16);
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
  static constexpr int kBytes = 18, kBias = 8;
  static constexpr bool kMin = false;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static void codes(const uint8_t* p, __m512i* w) { nibble_lines(p + 32, w); }
};
struct Q4_1 {
  static constexpr int kBytes = 20, kBias = 0;
  static constexpr bool kMin = true;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static __m512 m(const uint8_t* p) { return halves(p + 32); }
  static void codes(const uint8_t* p, __m512i* w) { nibble_lines(p + 64, w); }
};
struct Q5_0 {
  static constexpr int kBytes = 22, kBias = 16;
  static constexpr bool kMin = false;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static void codes(const uint8_t* p, __m512i* w) {
    nibble_lines(p + 96, w);
    or_fifth_bits(line(p + 32, 0), w);
  }
};
struct Q5_1 {
  static constexpr int kBytes = 24, kBias = 0;
  static constexpr bool kMin = true;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static __m512 m(const uint8_t* p) { return halves(p + 32); }
  static void codes(const uint8_t* p, __m512i* w) {
    nibble_lines(p + 128, w);
    or_fifth_bits(line(p + 64, 0), w);
  }
};
struct Q8_0 {
  static constexpr int kBytes = 34, kBias = 128;
  static constexpr bool kMin = false;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static void codes(const uint8_t* p, __m512i* w) {
    for (int i = 0; i < 8; ++i) w[i] = line(p + 32, int(i));
  }
};
struct Iq4Nl {
  static constexpr int kBytes = 18, kBias = 128;
  static constexpr bool kMin = false;
  static __m512 d(const uint8_t* p) { return halves(p); }
  static void codes(const uint8_t* p, __m512i* w) { table_lines(p + 32, iq4_table(), w); }
};
struct Mxfp4 {
  static constexpr int kBytes = 17, kBias = 12;
  static constexpr bool kMin = false;
  // 2^(e-128), and 0 if e < 64.
  static __m512 d(const uint8_t* p) {
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __mmask16 live = _mm512_cmpge_epi32_mask(e, _mm512_set1_epi32(64));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(live, _mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23));
  }
  static void codes(const uint8_t* p, __m512i* w) { table_lines(p + 16, fp4_table(), w); }
};

// ---- blocks of 256 ---------------------------------------------------------------------------------------------

// What a block has besides its codes.
struct alignas(64) Scales {
  __m512i scale[16];  // int32: of sub-block j, of 16 or 32 weights
  __m512i
      pair[8];  // int16: coefficients of the activations' sums over sub-blocks 2p and 2p + 1: minima, or scale * bias
  __m512 d;
  __m512 m;  // dmin
};

// kSub is the sub-block's size; kMin: the pairs are minima, else what the codes' bias adds.
// codes<j>: sub-block j of 32, w [8] quad by quad.

// GGUF's 12 bytes of 6-bit scales and minima (Q4_K, Q5_K) at p.
inline void scales_6_bit(const uint8_t* p, Scales& s) {
  const __m512i a = line(p, 0), b = line(p, 1), c = line(p, 2), low6 = bytes(63), high2 = bytes(0x30);
  const __m512i sc[2] = {_mm512_and_si512(a, low6), or_masked(low_nibbles(c), _mm512_srli_epi16(a, 2), high2)};
  const __m512i mn[2] = {_mm512_and_si512(b, low6), or_masked(high_nibbles(c), _mm512_srli_epi16(b, 2), high2)};
  for (uint32_t j = 0; j < 8; ++j) s.scale[j] = byte_of(sc[j / 4], j % 4);
  for (uint32_t p2 = 0; p2 < 4; ++p2) s.pair[p2] = byte_pair_of(mn[p2 / 2], p2 % 2 * 2, p2 % 2 * 2 + 1);
}

// Sub-block j of 32 from lines of nibbles in which two sub-blocks share a line.
template <int j>
inline void nibble_sub_block(const uint8_t* p, __m512i* w) {
  for (int q = 0; q < 8; ++q) {
    const __m512i x = line(p, 8 * (j / 2) + q);
    w[q] = j % 2 ? high_nibbles(x) : low_nibbles(x);
  }
}

struct Q4K {
  static constexpr int kBytes = 144, kSub = 32;
  static constexpr bool kMin = true;
  static void scales(const uint8_t* p, Scales& s) {
    s.d = halves(p);
    s.m = halves(p + 32);
    scales_6_bit(p + 64, s);
  }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    nibble_sub_block<j>(p + 256, w);
  }
};
struct Q5K {
  static constexpr int kBytes = 176, kSub = 32;
  static constexpr bool kMin = true;
  static void scales(const uint8_t* p, Scales& s) { Q4K::scales(p, s); }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    nibble_sub_block<j>(p + 768, w);
    for (int q = 0; q < 8; ++q) w[q] = or_masked(w[q], shift<4 - j>(line(p + 256, q)), bytes(16));
  }
};
struct Q6K {
  static constexpr int kBytes = 210, kSub = 16;
  static constexpr bool kMin = false;
  static void scales(const uint8_t* p, Scales& s) {
    s.d = halves(p);
    for (uint32_t i = 0; i < 4; ++i) {
      const __m512i x = line(p + 32, int(i));
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = signed_byte_of(x, j);
      s.pair[2 * i] = _mm512_srai_epi16(high_byte_pair_of(x, 0, 1), 3);  // times 32
      s.pair[2 * i + 1] = _mm512_srai_epi16(high_byte_pair_of(x, 2, 3), 3);
    }
  }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    constexpr int half = j / 4, s = j % 4;
    for (int q = 0; q < 8; ++q) {
      const __m512i low = line(p + 288, 16 * half + 8 * (s % 2) + q), high = line(p + 2336, 8 * half + q);
      w[q] = or_masked(s / 2 ? high_nibbles(low) : low_nibbles(low), shift<4 - 2 * s>(high), bytes(0x30));
    }
  }
};

// Two bits a weight, four sub-blocks in a line (Q2_K, Q3_K).
template <int j>
inline void two_bit_sub_block(const uint8_t* p, __m512i* w) {
  for (int q = 0; q < 8; ++q) w[q] = _mm512_and_si512(shift<-2 * (j % 4)>(line(p, 8 * (j / 4) + q)), bytes(3));
}

struct Q2K {
  static constexpr int kBytes = 84, kSub = 16;
  static constexpr bool kMin = true;
  static void scales(const uint8_t* p, Scales& s) {
    s.d = halves(p);
    s.m = halves(p + 32);
    for (uint32_t i = 0; i < 4; ++i) {
      const __m512i x = line(p + 64, int(i)), sc = low_nibbles(x), mn = high_nibbles(x);
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = byte_of(sc, j);
      s.pair[2 * i] = byte_pair_of(mn, 0, 1);
      s.pair[2 * i + 1] = byte_pair_of(mn, 2, 3);
    }
  }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    two_bit_sub_block<j>(p + 320, w);
  }
};
struct Q3K {
  static constexpr int kBytes = 110, kSub = 16;
  static constexpr bool kMin = false;
  static void scales(const uint8_t* p, Scales& s) {
    s.d = halves(p);
    const __m512i a = line(p + 32, 0), b = line(p + 32, 1), c = line(p + 32, 2), high2 = bytes(0x30);
    const __m512i sc[4] = {or_masked(low_nibbles(a), _mm512_slli_epi16(c, 4), high2),
                           or_masked(low_nibbles(b), _mm512_slli_epi16(c, 2), high2),
                           or_masked(high_nibbles(a), c, high2),
                           or_masked(high_nibbles(b), _mm512_srli_epi16(c, 2), high2)};
    const __m512i bias32 = _mm512_set1_epi32(32), bias16 = _mm512_set1_epi16(32);
    for (uint32_t i = 0; i < 4; ++i) {
      for (uint32_t j = 0; j < 4; ++j) s.scale[4 * i + j] = _mm512_sub_epi32(byte_of(sc[i], j), bias32);
      for (uint32_t h = 0; h < 2; ++h)  // times 4, the codes' bias
        s.pair[2 * i + h] = _mm512_slli_epi16(_mm512_sub_epi16(byte_pair_of(sc[i], 2 * h, 2 * h + 1), bias16), 2);
    }
  }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    two_bit_sub_block<j>(p + 224, w);
    for (int q = 0; q < 8; ++q) w[q] = or_masked(w[q], shift<2 - j>(line(p + 1248, q)), bytes(4));
  }
};
struct Iq4Xs {
  static constexpr int kBytes = 136, kSub = 32;
  static constexpr bool kMin = false;
  static void scales(const uint8_t* p, Scales& s) {
    s.d = halves(p);
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)));
    const __m512i low = line(p + 64, 0);
    for (int j = 0; j < 8; ++j) {
      const __m512i h = _mm512_and_si512(_mm512_srli_epi32(high, unsigned(2 * j)), _mm512_set1_epi32(3));
      const __m512i l = _mm512_and_si512(_mm512_srli_epi32(low, unsigned(4 * j)), _mm512_set1_epi32(15));
      s.scale[j] = _mm512_sub_epi32(_mm512_or_si512(l, _mm512_slli_epi32(h, 4)), _mm512_set1_epi32(32));
    }
    for (int i = 0; i < 4; ++i) {  // times 128, the codes' bias
      const __m512i even = _mm512_slli_epi32(s.scale[2 * i], 7), odd = _mm512_slli_epi32(s.scale[2 * i + 1], 7 + 16);
      s.pair[i] = _mm512_mask_blend_epi16(0xaaaaaaaa, even, odd);
    }
  }
  template <int j>
  static void codes(const uint8_t* p, __m512i* w) {
    table_lines(p + 128 + 4 * j * x86::kLineBytes, iq4_table(), w);
  }
};

}  // namespace
}  // namespace kvasir::avx512
