// What the AVX-512 products for blocks of 32 and of 256 share: dot-product instructions, prefetch, activation tiles,
// accumulators, and the loop over groups of 16 weight rows.
//
// Few activation rows (decode) wait for memory: one group at a time, unpacked in registers, prefetched. Many rows
// (prefill) wait for the two multiplier ports: two groups at a time, so that an activation quad is loaded once for 32
// weight rows; activation rows are copied tile by tile, because rows 2^n bytes apart share a few sets of the L1 cache.
// What is not a product happens between products of the row loop: copying the next tile's activations, asking memory
// for the next two groups' weights, a few lines at a time. In a burst they cost 20 % (cache) and 40 % (memory).
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/ops.h"

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
inline __m512i broadcast_quad(const void* q) {
  return _mm512_set1_epi32(*static_cast<const Quad*>(q));
}

// Asks for the n_bytes of weights that come a few blocks later. Decoding is one long stream, but unpacking fills the
// core's window with arithmetic, so that it looks only about two blocks ahead by itself: 17 GB/s where plain reading
// gives 42 (Zen 5, Q4_K); asking 2 to 8 KiB ahead gives 36 to 39.
constexpr int64_t kPrefetchBytes = 6144;
template <int n_bytes>
inline void prefetch(const uint8_t* p, int64_t ahead = kPrefetchBytes) {
  for (int i = 0; i < n_bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p) + ahead + i, _MM_HINT_T0);
}

// Up to this many activation rows go through the decode form.
constexpr int kFewRows = 4;
// Activation rows of a tile: up to 40 KiB of sums and activations on the stack, and unpacking takes about 5 % of the
// dot products' time.
constexpr int kTile = 32;

// Sums over 32 codes from 16 sums over 16 of them, as int16.
inline __m128i sums_of_32(const int16_t* sums16) {
  const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums16));
  return _mm256_cvtepi32_epi16(_mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}

// 256 columns of up to kTile activation rows, side by side. kSub: weights that the sums are over.
template <int kSub>
struct alignas(64) ActTile {
  int8_t codes[kTile][256];
  int16_t sums[kTile][256 / kSub];
  float scales[kTile][8];

  // Columns [begin, begin + n_cols) of rows [t, t + n); n_cols <= 256 and both multiples of 32.
  void load(const A8Rows& x, int64_t row_cols, int64_t begin, int64_t n_cols, int64_t t, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (t + i) * row_cols + begin;
      if (n_cols == 256)
        load_row<256>(x, at, 256, i);
      else
        load_row<0>(x, at, n_cols, i);
    }
  }

 private:
  // kCols is n_cols where it is known at compile time: then a copy is a few instructions.
  template <int kCols>
  void load_row(const A8Rows& x, int64_t at, int64_t n_cols, int64_t i) {
    const auto n = size_t(kCols ? kCols : n_cols);
    std::memcpy(codes[i], x.codes + at, n);
    if (x.block == 32)
      std::memcpy(scales[i], x.scales + at / 32, n / 32 * sizeof(float));
    else
      scales[i][0] = x.scales[at / 256];
    const int16_t* sums16 = x.sums + at / 16;
    if constexpr (kSub == 16)
      std::memcpy(sums[i], sums16, sizeof sums[i]);
    else if constexpr (kCols == 256)
      _mm_store_si128(reinterpret_cast<__m128i*>(sums[i]), sums_of_32(sums16));
    else
      for (size_t j = 0; j < n / 32; ++j) sums[i][j] = int16_t(sums16[2 * j] + sums16[2 * j + 1]);
  }
};

// Terms of block b are added to [b % 8] of their activation row.
template <int n_rows>
struct alignas(64) Accumulators {
  __m512 a[8][n_rows];

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

// A pairwise tree of 8 accumulators of up to kTile activation rows, for accumulators that are summed up one after
// another: as a binary counter, so that 3 partial sums a row are kept and not 8 accumulators, and stay in the L1 cache.
struct alignas(64) Tree {
  __m512 level[4][kTile];  // [k]: the sum of 2^k accumulators, if bit k of the number of finished ones is set

  // v and the k lowest levels of row t.
  __m512 joined(int k, int64_t t, __m512 v) const {
    for (int l = 0; l < k; ++l) v = _mm512_add_ps(level[l][t], v);
    return v;
  }
  // The root when n accumulators are finished and the others are 0 (x + 0 is x here: no sum is -0).
  __m512 root(int n, int64_t t) const {
    int k = std::countr_zero(unsigned(n));
    __m512 v = level[k][t];
    for (++k; k < 4; ++k)
      if (n >> k & 1) v = _mm512_add_ps(level[k][t], v);
    return v;
  }
};

// n of the 16 rows of a group.
inline __mmask16 lanes(int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : __mmask16((1 << n) - 1);
}

// One group against 1 ... kFewRows activation rows.
template <class Kernel>
inline void few_rows(const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t n_rows, __mmask16 mask, float* out,
                     int64_t stride) {
  switch (n_rows) {
    case 1:
      return Kernel::template few<1>(p, x, n_cols, mask, out, stride);
    case 2:
      return Kernel::template few<2>(p, x, n_cols, mask, out, stride);
    case 3:
      return Kernel::template few<3>(p, x, n_cols, mask, out, stride);
    default:
      return Kernel::template few<kFewRows>(p, x, n_cols, mask, out, stride);
  }
}

// Two groups, and which rows of them are wanted.
using Pair = std::array<const uint8_t*, 2>;
using Masks = std::array<__mmask16, 2>;

// A product of one type: Kernel has kBlock, kGroupBlock (bytes of a packed block), kFewRows (the most activation rows
// of the decode form), and
//   few<n>(p, x, n_cols, mask, out, stride)                    one group, n activation rows from the start of x
//   many(pair, ahead, x, n_cols, t, n, masks, out, stride)     two groups, activation rows [t, t + n), n <= kTile; the
//                                                              weights `ahead` bytes further on are needed next
template <class Kernel>
inline void product(const Weights& w, int64_t row_begin, int64_t row_end, const A8Rows& x, int64_t n_rows, float* out,
                    int64_t stride) {
  const int64_t group_bytes = w.n_cols / Kernel::kBlock * Kernel::kGroupBlock;
  const auto* data = reinterpret_cast<const uint8_t*>(w.data);
  if (n_rows <= kFewRows) {
    for (int64_t r = row_begin; r < row_end; r += 16)
      few_rows<Kernel>(data + r / 16 * group_bytes, x, w.n_cols, n_rows, lanes(row_end - r), out + r, stride);
    return;
  }
  for (int64_t r = row_begin; r < row_end; r += 32) {
    const uint8_t* p = data + r / 16 * group_bytes;
    const bool two = r + 16 < row_end;  // else the one group is computed twice and stored once
    const Pair pair{p, two ? p + group_bytes : p};
    const Masks masks{lanes(row_end - r), two ? lanes(row_end - r - 16) : __mmask16(0)};
    for (int64_t t = 0; t < n_rows; t += kTile) {
      const int64_t n = std::min<int64_t>(kTile, n_rows - t);
      // The first tile asks for the next two groups' weights; later ones ask for what they have, which costs nothing.
      const int64_t ahead = t == 0 && r + 32 < row_end ? 2 * group_bytes : 0;
      Kernel::many(pair, ahead, x, w.n_cols, t, n, masks, out + t * stride + r, stride);
    }
  }
}

}  // namespace
}  // namespace kvasir::avx512
