// Dot-product instructions with the activations broadcast from memory, and the sum of the 8 interleaved accumulators.
#pragma once
#include <cstdint>
#include <immintrin.h>

namespace kvasir::avx512 {
namespace {

using Quad [[gnu::may_alias]] = int32_t;

// sum += w (16 x 4 unsigned bytes) . the 4 signed bytes at q, in each lane. As text, because g++ 12 does not fold the
// broadcast into the instruction and then runs out of registers.
inline void dot_quad(__m512i& sum, __m512i w, const void* q) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*static_cast<const Quad*>(q)));
}
// sum += pairs (16 x 2 int16) . the 2 int16 at s, in each lane.
inline void dot_pair(__m512i& sum, __m512i pairs, const void* s) {
  asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(pairs), "m"(*static_cast<const Quad*>(s)));
}

// Accumulators of a few activation rows: term of block b goes to [b % 8][row].
constexpr int kTile = 48;  // 24 KiB of stack; unpacking then costs a few percent of the dot products
struct alignas(64) Accumulators {
  __m512 a[8][kTile];

  void clear(int64_t n) {
    for (auto& row : a)
      for (int64_t t = 0; t < n; ++t) row[t] = _mm512_setzero_ps();
  }
  // The pairwise tree, stored to out [t * stride + r] for the lanes of mask.
  void store(int64_t n, __mmask16 mask, float* out, int64_t stride) const {
    for (int64_t t = 0; t < n; ++t) {
      const __m512 low = _mm512_add_ps(_mm512_add_ps(a[0][t], a[1][t]), _mm512_add_ps(a[2][t], a[3][t]));
      const __m512 high = _mm512_add_ps(_mm512_add_ps(a[4][t], a[5][t]), _mm512_add_ps(a[6][t], a[7][t]));
      _mm512_mask_storeu_ps(out + t * stride, mask, _mm512_add_ps(low, high));
    }
  }
};

// Calls body(packed rows, first row, lanes in range) for each group of 16 rows in [row_begin, row_end).
template <class Body>
inline void for_groups(const std::byte* data, int64_t group_bytes, int64_t row_begin, int64_t row_end, Body body) {
  for (int64_t r = row_begin; r < row_end; r += 16) {
    const auto mask = row_end - r >= 16 ? __mmask16(0xffff) : __mmask16((1 << (row_end - r)) - 1);
    body(reinterpret_cast<const uint8_t*>(data) + r / 16 * group_bytes, r, mask);
  }
}

}  // namespace
}  // namespace kvasir::avx512
