// Matrix product for types with blocks of 256: sub-blocks are dotted and scaled as integers, then one f32 term per
// block, row and activation row.
#include "core/error.h"
#include "kernels/x86/avx512_dot.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_terms.h"
#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

// The scaled sum of sub-block j of 32 from those of its two halves.
template <class Type, int j>
inline __m512i scaled(const Scales& s, __m512i low, __m512i high) {
  if constexpr (Type::kSub == 32)
    return _mm512_mullo_epi32(_mm512_add_epi32(low, high), s.scale[j]);
  else
    return _mm512_add_epi32(_mm512_mullo_epi32(low, s.scale[2 * j]), _mm512_mullo_epi32(high, s.scale[2 * j + 1]));
}

template <class Type>
struct Kernel {
  static constexpr int kBlock = 256, kGroupBlock = Type::kBytes * x86::kGroupRows;
  static constexpr int kPairs = 128 / Type::kSub;

  template <int n>
  static void few(const uint8_t* p, const A8Rows& x, int64_t n_cols, __mmask16 mask, float* out, int64_t stride) {
    Accumulators<n> acc;
    acc.clear(n);
    for (int64_t b = 0; b < n_cols / 256; ++b, p += kGroupBlock) {
      prefetch<kGroupBlock>(p);
      Scales s;
      Type::scales(p, s);
      __m512i isum[n];
      for (auto& sum : isum) sum = _mm512_setzero_si512();
      for_sub_blocks([&](auto j) {
        __m512i w[8];
        Type::template codes<j>(p, w);
        for (int t = 0; t < n; ++t) {
          const int8_t* q = x.codes + t * n_cols + b * 256 + 32 * j;
          __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();
          for (int c = 0; c < 4; ++c) dot_quad(low, w[c], q + 4 * c);
          for (int c = 4; c < 8; ++c) dot_quad(high, w[c], q + 4 * c);
          isum[t] = _mm512_add_epi32(isum[t], scaled<Type, j>(s, low, high));
        }
      });
      for (int t = 0; t < n; ++t) {
        const int64_t at = t * n_cols + b * 256;
        const int16_t* sums = x.sums + at / 16;
        alignas(16) int16_t sums32[8];
        if constexpr (Type::kSub == 32) {
          _mm_store_si128(reinterpret_cast<__m128i*>(sums32), sums_of_32(sums));
          sums = sums32;
        }
        __m512i pairs = _mm512_setzero_si512();
        for (int i = 0; i < kPairs; ++i) dot_pair(pairs, s.pair[i], sums + 2 * i);
        acc.a[b % 8][t] = _mm512_add_ps(acc.a[b % 8][t], term<Type>(s, x.scales[at / 256], isum[t], pairs));
      }
    }
    acc.store(n, mask, out, stride);
  }

  static void many(const uint8_t* p, const uint8_t* q, int64_t ahead, const A8Rows& x, int64_t n_cols, int64_t first,
                   int64_t n, Accumulators<kTile>& acc_p, Accumulators<kTile>& acc_q) {
    ActTile<Type::kSub> tile;
    for (int64_t b = 0; b < n_cols / 256; ++b, p += kGroupBlock, q += kGroupBlock) {
      if (ahead) {
        prefetch<kGroupBlock>(p, ahead);
        prefetch<kGroupBlock>(q, ahead);
      }
      tile.load(x, n_cols, b * 256, 256, first, n);
      pair_terms(p, q, tile, n, acc_p.a[b % 8], acc_q.a[b % 8]);
    }
  }

 private:
  static void pair_terms(const uint8_t* p, const uint8_t* q, const ActTile<Type::kSub>& x, int64_t n, __m512* acc_p,
                         __m512* acc_q) {
    Scales sw, sv;
    Type::scales(p, sw);
    Type::scales(q, sv);
    alignas(64) __m512i isum_w[kTile], isum_v[kTile];
    for_sub_blocks([&](auto j) {
      __m512i w[8], v[8];
      Type::template codes<j>(p, w);
      Type::template codes<j>(q, v);
      for (int64_t t = 0; t < n; ++t) {
        // Two chains of four for each group: half the latency, which is what limits how many rows are in flight.
        __m512i low_w = _mm512_setzero_si512(), high_w = low_w, low_v = low_w, high_v = low_w;
        for (int c = 0; c < 4; ++c) {
          const __m512i low = broadcast_quad(x.codes[t] + 32 * j + 4 * c);
          const __m512i high = broadcast_quad(x.codes[t] + 32 * j + 4 * c + 16);
          low_w = _mm512_dpbusd_epi32(low_w, w[c], low);
          low_v = _mm512_dpbusd_epi32(low_v, v[c], low);
          high_w = _mm512_dpbusd_epi32(high_w, w[c + 4], high);
          high_v = _mm512_dpbusd_epi32(high_v, v[c + 4], high);
        }
        const __m512i scaled_w = scaled<Type, j>(sw, low_w, high_w), scaled_v = scaled<Type, j>(sv, low_v, high_v);
        isum_w[t] = j == 0 ? scaled_w : _mm512_add_epi32(isum_w[t], scaled_w);
        isum_v[t] = j == 0 ? scaled_v : _mm512_add_epi32(isum_v[t], scaled_v);
      }
    });
    for (int64_t t = 0; t < n; ++t) {
      __m512i pairs_w = _mm512_setzero_si512(), pairs_v = pairs_w;
      for (int i = 0; i < kPairs; ++i) {
        const __m512i sums = broadcast_quad(x.sums[t] + 2 * i);
        pairs_w = _mm512_dpwssd_epi32(pairs_w, sw.pair[i], sums);
        pairs_v = _mm512_dpwssd_epi32(pairs_v, sv.pair[i], sums);
      }
      const float dx = x.scales[t][0];
      acc_p[t] = _mm512_add_ps(acc_p[t], term<Type>(sw, dx, isum_w[t], pairs_w));
      acc_q[t] = _mm512_add_ps(acc_q[t], term<Type>(sv, dx, isum_v[t], pairs_v));
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

}  // namespace kvasir::avx512
