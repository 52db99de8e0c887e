// Matrix product by AMX tiles for many activation rows. Written against a tile interface: Tiles of amx_tile.h is the
// CPU's, and the conformance suite compiles the same code over tiles in software.
//
// A tile instruction takes int32 C [16][16] += A [16][64] . B [64][16] bytes in 16 cycles, 1024 products a cycle. A is
// 16 activation rows, B is 16 packed lines: 16 weight rows, 64 weights each, just as they lie. What the tile unit
// cannot do is scale sub-blocks, so a block of 256 is unpacked once for up to 64 activation rows into products
// scale * code of 16 bits, as a plane of low bytes (unsigned) and one of high bytes (signed): exact, 2 instructions
// instead of 1. Blocks of 32 have a term each, so their tiles are half as deep.
//
// In an anonymous namespace: compiled with AVX-512 flags, it must not be linked elsewhere.
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>

#include "core/error.h"
#include "kernels/x86/amx_tile.h"
#include "kernels/x86/avx512_dot.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_terms.h"

namespace kvasir::amx {
namespace {

using avx512::Accumulators;
using avx512::ActTile;
using avx512::kTile;  // 32 activation rows: two tiles of A
static_assert(kTile == 32);

// Fewer rows go to the vector kernels. A group's block costs about 500 cycles in unpacking and tiles whatever the rows;
// vpdpbusd, 64 products a cycle, takes about 80 cycles for each row: even at 6, and a tile at 8 is half full.
constexpr int64_t kMinRows = 8;

constexpr int kRegisterRows = 16;              // of A and C
constexpr int kDeep = 64;                      // weights that a full tile takes at once
constexpr int kPartTiles = 2;                  // activation tiles of kTile rows that share one unpacking
constexpr int kPartRows = kPartTiles * kTile;  // 32 KiB of accumulators

// Integer sums [activation row][weight row].
struct alignas(64) Sums {
  int32_t c[kTile][16];
  __m512i row(int64_t t) const { return _mm512_load_si512(c[t]); }
};
constexpr int64_t kSumStride = 16 * sizeof(int32_t);

// A block of 256 of a group, as bytes of scale * code. Byte 4r + j of line q is weight 4q + j of row r.
struct alignas(64) Planes {
  __m512i low[64];   // unsigned
  __m512i high[64];  // signed
};

// Codes of one activation row of an ActTile.
using Codes = int8_t[256];

// Q2_K's products are at most 15 * 3: one plane holds them.
template <class Type>
constexpr bool kHasHigh = !std::is_same_v<Type, avx512::Q2K>;

// Scale j as int16, twice in each 32-bit lane.
inline __m512i scale_pair(const avx512::Scales& s, int j) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, s.scale[j], _mm512_slli_epi32(s.scale[j], 16));
}

// Unsigned codes times int16 scales, the low 16 bits: |scale * code| < 2^15 for every type.
inline void multiply(__m512i codes, __m512i scale, __m512i& low, __m512i& high) {
  const __m512i even = _mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(255)), scale);
  const __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(codes, 8), scale);
  constexpr __mmask64 kOddBytes = 0xaaaaaaaaaaaaaaaa;
  low = _mm512_mask_blend_epi8(kOddBytes, even, _mm512_slli_epi16(odd, 8));
  high = _mm512_mask_blend_epi8(kOddBytes, _mm512_srli_epi16(even, 8), odd);
}

template <class Type>
inline void unpack(const uint8_t* p, const avx512::Scales& s, Planes& planes) {
  avx512::for_sub_blocks([&](auto j) {
    __m512i w[8];
    Type::template codes<j>(p, w);
    constexpr int first = Type::kSub == 32 ? j : 2 * j, second = Type::kSub == 32 ? j : 2 * j + 1;
    const __m512i scales[2] = {scale_pair(s, first), scale_pair(s, second)};
    for (int q = 0; q < 8; ++q) multiply(w[q], scales[q / 4], planes.low[8 * j + q], planes.high[8 * j + q]);
  });
}

// Blocks of 256.
template <class Tiles, class Type>
struct Kernel256 {
  static constexpr int kBlock = 256, kGroupBlock = Type::kBytes * x86::kGroupRows, kPairs = 128 / Type::kSub;

  // Registers: C low 0 1, C high 2 3 (of the first and second 16 activation rows), A 4 5, B 6 (low) 7 (high).
  static std::array<TileShape, 8> shapes() { return {}; }

  // One group against activation rows [first, first + n), n <= kPartRows.
  static void rows(Tiles& tiles, const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t first, int64_t n,
                   Accumulators<kTile>* acc) {
    ActTile<Type::kSub> act{};  // rows beyond n stay 0: tiles always multiply 16
    Planes planes;
    for (int64_t b = 0; b < n_cols / 256; ++b, p += kGroupBlock) {
      avx512::Scales s;
      Type::scales(p, s);
      unpack<Type>(p, s, planes);
      for (int64_t part = 0; part * kTile < n; ++part) {
        const int64_t n_part = std::min<int64_t>(kTile, n - part * kTile);
        act.load(x, n_cols, b * 256, 256, first + part * kTile, n_part);
        if (n_part > kRegisterRows)
          terms<2>(tiles, planes, s, act, n_part, acc[part].a[b % 8]);
        else
          terms<1>(tiles, planes, s, act, n_part, acc[part].a[b % 8]);
      }
    }
  }

 private:
  template <int n_registers>
  static void terms(Tiles& tiles, const Planes& planes, const avx512::Scales& s, const ActTile<Type::kSub>& x,
                    int64_t n, __m512* acc) {
    Sums low, high;
    multiply_tiles<n_registers>(tiles, planes, x.codes, low, high);
    for (int64_t t = 0; t < n; ++t) {
      __m512i isum = low.row(t), pairs = _mm512_setzero_si512();
      if constexpr (kHasHigh<Type>) isum = _mm512_add_epi32(isum, _mm512_slli_epi32(high.row(t), 8));
      for (int i = 0; i < kPairs; ++i) avx512::dot_pair(pairs, s.pair[i], x.sums[t] + 2 * i);
      acc[t] = _mm512_add_ps(acc[t], avx512::term<Type>(s, x.scales[t][0], isum, pairs));
    }
  }

  template <int n_registers>
  static void multiply_tiles(Tiles& tiles, const Planes& planes, const Codes* x, Sums& low, Sums& high) {
    constexpr int64_t kCodeStride = sizeof(Codes);
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
    for (int k = 0; k < 256 / kDeep; ++k) {
      tiles.template load<4>(x[0] + k * kDeep, kCodeStride);
      if constexpr (n_registers > 1) tiles.template load<5>(x[kRegisterRows] + k * kDeep, kCodeStride);
      tiles.template load<6>(planes.low + k * 16, x86::kLineBytes);
      tiles.template dot_unsigned<0, 4, 6>();
      if constexpr (n_registers > 1) tiles.template dot_unsigned<1, 5, 6>();
      if constexpr (kHasHigh<Type>) {
        tiles.template load<7>(planes.high + k * 16, x86::kLineBytes);
        tiles.template dot_signed<2, 4, 7>();
        if constexpr (n_registers > 1) tiles.template dot_signed<3, 5, 7>();
      }
    }
    tiles.template store<0>(low.c[0], kSumStride);
    if constexpr (n_registers > 1) tiles.template store<1>(low.c[kRegisterRows], kSumStride);
    if constexpr (kHasHigh<Type>) {
      tiles.template store<2>(high.c[0], kSumStride);
      if constexpr (n_registers > 1) tiles.template store<3>(high.c[kRegisterRows], kSumStride);
    }
  }
};

// Blocks of 32.
template <class Tiles, class Type>
struct Kernel32 {
  static constexpr int kBlock = 32, kGroupBlock = Type::kBytes * x86::kGroupRows;

  // Registers: C 0 ... 3 (block by 16 activation rows), A 4 5, B 6 7; all half as deep.
  static std::array<TileShape, 8> shapes() {
    std::array<TileShape, 8> shapes;
    shapes[4] = shapes[5] = {.n_rows = kRegisterRows, .n_bytes = 32};
    shapes[6] = shapes[7] = {.n_rows = 8, .n_bytes = 64};
    return shapes;
  }

  static void rows(Tiles& tiles, const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t first, int64_t n,
                   Accumulators<kTile>* acc) {
    for (int64_t part = 0; part * kTile < n; ++part) {
      const int64_t n_part = std::min<int64_t>(kTile, n - part * kTile);
      if (n_part > kRegisterRows)
        part_rows<2>(tiles, p, x, n_cols, first + part * kTile, n_part, acc[part]);
      else
        part_rows<1>(tiles, p, x, n_cols, first + part * kTile, n_part, acc[part]);
    }
  }

 private:
  template <int n_registers>
  static void part_rows(Tiles& tiles, const uint8_t* p, const A8Rows& x, int64_t n_cols, int64_t first, int64_t n,
                        Accumulators<kTile>& acc) {
    ActTile<32> act{};  // rows beyond n stay 0: tiles always multiply 16
    for (int64_t begin = 0; begin < n_cols; begin += 256) {
      const int64_t width = std::min<int64_t>(256, n_cols - begin);
      act.load(x, n_cols, begin, width, first, n);
      int b = 0;
      for (; b + 2 <= width / 32; b += 2, p += 2 * kGroupBlock) terms<n_registers, 2>(tiles, p, act, b, n, acc);
      for (; b < width / 32; ++b, p += kGroupBlock) terms<n_registers, 1>(tiles, p, act, b, n, acc);
    }
  }

  // Blocks b ... b + n_blocks - 1: two are in the tile unit at once, since one waits for its results.
  template <int n_registers, int n_blocks>
  static void terms(Tiles& tiles, const uint8_t* p, const ActTile<32>& x, int b, int64_t n, Accumulators<kTile>& acc) {
    Sums sums[n_blocks];
    multiply_tiles<n_registers, 0>(tiles, p, x, b, sums[0]);
    if constexpr (n_blocks > 1) multiply_tiles<n_registers, 1>(tiles, p + kGroupBlock, x, b + 1, sums[1]);
    for (int i = 0; i < n_blocks; ++i) {
      const __m512 d = Type::d(p + i * kGroupBlock), m = avx512::minima<Type>(p + i * kGroupBlock);
      __m512* a = acc.a[b + i];
      for (int64_t t = 0; t < n; ++t) {
        const int s = x.sums[t][b + i];
        const __m512i isum = _mm512_sub_epi32(sums[i].row(t), _mm512_set1_epi32(Type::kBias * s));
        a[t] = _mm512_add_ps(a[t], avx512::term<Type>(d, m, x.scales[t][b + i], isum, s));
      }
    }
  }

  // which: 0 or 1, so that two blocks use different registers.
  template <int n_registers, int which>
  static void multiply_tiles(Tiles& tiles, const uint8_t* p, const ActTile<32>& x, int b, Sums& sums) {
    constexpr int64_t kCodeStride = sizeof(Codes);
    alignas(64) __m512i w[8];
    Type::codes(p, w);
    tiles.template load<6 + which>(w, x86::kLineBytes);
    tiles.template zero<2 * which>();
    tiles.template load<4>(x.codes[0] + 32 * b, kCodeStride);
    tiles.template dot_unsigned<2 * which, 4, 6 + which>();
    if constexpr (n_registers > 1) {
      tiles.template zero<2 * which + 1>();
      tiles.template load<5>(x.codes[kRegisterRows] + 32 * b, kCodeStride);
      tiles.template dot_unsigned<2 * which + 1, 5, 6 + which>();
    }
    tiles.template store<2 * which>(sums.c[0], kSumStride);
    if constexpr (n_registers > 1) tiles.template store<2 * which + 1>(sums.c[kRegisterRows], kSumStride);
  }
};

// A product of one type.
template <class Tiles, class Kernel>
void product(const Weights& w, int64_t row_begin, int64_t row_end, const A8Rows& x, int64_t n_rows, float* out,
             int64_t stride) {
  Tiles tiles(Kernel::shapes());
  const int64_t group_bytes = w.n_cols / Kernel::kBlock * Kernel::kGroupBlock;
  for (int64_t r = row_begin; r < row_end; r += x86::kGroupRows) {
    const auto* p = reinterpret_cast<const uint8_t*>(w.data) + r / x86::kGroupRows * group_bytes;
    for (int64_t t = 0; t < n_rows; t += kPartRows) {
      const int64_t n = std::min<int64_t>(kPartRows, n_rows - t);
      Accumulators<kTile> acc[kPartTiles];
      for (int64_t i = 0; i * kTile < n; ++i) acc[i].clear(std::min<int64_t>(kTile, n - i * kTile));
      Kernel::rows(tiles, p, x, w.n_cols, t, n, acc);
      for (int64_t i = 0; i * kTile < n; ++i)
        acc[i].store(std::min<int64_t>(kTile, n - i * kTile), avx512::lanes(row_end - r),
                     out + (t + i * kTile) * stride + r, stride);
    }
  }
}

// As CpuBackend::matmul.
template <class Tiles>
void matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto run_256 = [&]<class Type>(Type) {
    product<Tiles, Kernel256<Tiles, Type>>(w, row_begin, row_end, x.a8_256, x.n_rows, out, stride);
  };
  const auto run_32 = [&]<class Type>(Type) {
    product<Tiles, Kernel32<Tiles, Type>>(w, row_begin, row_end, x.a8_32, x.n_rows, out, stride);
  };
  if (x.n_rows < kMinRows) return avx512::matmul(w, row_begin, row_end, x, out, stride);
  switch (w.type) {
    case QuantType::q2_k:
      return run_256(avx512::Q2K());
    case QuantType::q3_k:
      return run_256(avx512::Q3K());
    case QuantType::q4_k:
      return run_256(avx512::Q4K());
    case QuantType::q5_k:
      return run_256(avx512::Q5K());
    case QuantType::q6_k:
      return run_256(avx512::Q6K());
    case QuantType::iq4_xs:
      return run_256(avx512::Iq4Xs());
    case QuantType::q4_0:
      return run_32(avx512::Q4_0());
    case QuantType::q4_1:
      return run_32(avx512::Q4_1());
    case QuantType::q5_0:
      return run_32(avx512::Q5_0());
    case QuantType::q5_1:
      return run_32(avx512::Q5_1());
    case QuantType::q8_0:
      return run_32(avx512::Q8_0());
    case QuantType::iq4_nl:
      return run_32(avx512::Iq4Nl());
    case QuantType::mxfp4:
      return run_32(avx512::Mxfp4());
    case QuantType::f32:
    case QuantType::f16:
    case QuantType::bf16:
      return avx512::matmul(w, row_begin, row_end, x, out, stride);
  }
}

}  // namespace
}  // namespace kvasir::amx
