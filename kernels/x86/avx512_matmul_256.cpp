// Matrix product for types with blocks of 256: sub-blocks are dotted and scaled as integers, then one f32 term per
// block, row and activation row.
#include <bit>

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

  // Accumulators one after another: [i] has blocks i, i + 8, ...
  static void many(Pair pair, int64_t ahead, const A8Rows& x, int64_t n_cols, int64_t first, int64_t n, Masks masks,
                   float* out, int64_t stride) {
    const Rows rows{x, n_cols / 256, first, n};
    const int n_accumulators = int(std::min<int64_t>(rows.n_blocks, 8));
    Tree tree_p, tree_q;
    Tile tiles[2];
    rows.copy(0, tiles[0]);
    int turn = 0;
    for (int i = 0; i < n_accumulators; ++i) {
      const int k = std::countr_one(unsigned(i));  // where it joins the tree; until then it is summed up there
      for (int64_t b = i; b < rows.n_blocks; b += 8, turn ^= 1) {
        const bool first_block = b == i, last_block = b + 8 >= rows.n_blocks;
        const int64_t next_block = last_block ? std::min<int64_t>(i + 1, rows.n_blocks - 1) : b + 8;
        const auto add = [&](Tree& tree, int64_t t, __m512 term) {
          const __m512 sum = _mm512_add_ps(first_block ? _mm512_setzero_ps() : tree.level[k][t], term);
          tree.level[k][t] = tree.joined(last_block ? k : 0, t, sum);
        };
        const int64_t at = b * kGroupBlock;
        pair_terms({pair[0] + at, pair[1] + at}, ahead, rows, b, tiles[turn], next_block, tiles[turn ^ 1],
                   [&](int64_t t, __m512 term_p, __m512 term_q) {
                     add(tree_p, t, term_p);
                     add(tree_q, t, term_q);
                   });
      }
    }
    for (int64_t t = 0; t < n; ++t) {
      _mm512_mask_storeu_ps(out + t * stride, masks[0], tree_p.root(n_accumulators, t));
      _mm512_mask_storeu_ps(out + t * stride + 16, masks[1], tree_q.root(n_accumulators, t));
    }
  }

 private:
  // One block of the activation rows, side by side.
  struct alignas(64) Tile {
    int8_t codes[kTile][256];
    int16_t sums[kTile][256 / Type::kSub];
  };

  // Activation rows [first, first + n).
  struct Rows {
    const A8Rows& x;
    int64_t n_blocks, first, n;

    int64_t at(int64_t t, int64_t b) const { return (first + t) * n_blocks + b; }
    void copy_line(int64_t t, int64_t b, int i, Tile& to) const {
      _mm512_store_si512(to.codes[t] + 64 * i, _mm512_loadu_si512(x.codes + at(t, b) * 256 + 64 * i));
    }
    void copy_sums(int64_t t, int64_t b, Tile& to) const {
      const int16_t* sums = x.sums + at(t, b) * 16;
      if constexpr (Type::kSub == 16)
        std::memcpy(to.sums[t], sums, sizeof to.sums[t]);
      else
        _mm_store_si128(reinterpret_cast<__m128i*>(to.sums[t]), sums_of_32(sums));
    }
    void copy(int64_t b, Tile& to) const {
      for (int64_t t = 0; t < n; ++t) {
        for (int i = 0; i < 4; ++i) copy_line(t, b, i, to);
        copy_sums(t, b, to);
      }
    }
  };

  // Asks for sub-block j's share of the lines of both blocks at p. Into the L2 cache: they are needed after 2,000
  // cycles or more, and the L1 cache is full.
  static void ask(Pair p, int j) {
    constexpr int kLines = (kGroupBlock / x86::kLineBytes + 7) / 8;
    for (int i = kLines * j; i < kLines * (j + 1); ++i)
      for (const uint8_t* group : p)
        _mm_prefetch(reinterpret_cast<const char*>(group) + i * x86::kLineBytes, _MM_HINT_T1);
  }

  // Gives block b's terms of the two groups to add, row by row, and copies next_block's activations meanwhile.
  template <class Add>
  static inline void pair_terms(Pair p, int64_t ahead, const Rows& rows, int64_t b, const Tile& x, int64_t next_block,
                                Tile& next, Add add) {
    Scales sw, sv;
    Type::scales(p[0], sw);
    Type::scales(p[1], sv);
    alignas(64) __m512i isum_w[kTile], isum_v[kTile];
    for_sub_blocks([&](auto j) {
      ask({p[0] + ahead, p[1] + ahead}, j);
      __m512i w[8], v[8];
      Type::template codes<j>(p[0], w);
      Type::template codes<j>(p[1], v);
      for (int64_t t = 0; t < rows.n; ++t) {
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
        if constexpr (j < 4)
          rows.copy_line(t, next_block, j, next);
        else if constexpr (j == 4)
          rows.copy_sums(t, next_block, next);
      }
    });
    for (int64_t t = 0; t < rows.n; ++t) {
      __m512i pairs_w = _mm512_setzero_si512(), pairs_v = pairs_w;
      for (int i = 0; i < kPairs; ++i) {
        const __m512i sums = broadcast_quad(x.sums[t] + 2 * i);
        pairs_w = _mm512_dpwssd_epi32(pairs_w, sw.pair[i], sums);
        pairs_v = _mm512_dpwssd_epi32(pairs_v, sv.pair[i], sums);
      }
      const float dx = rows.x.scales[rows.at(t, b)];
      add(t, term<Type>(sw, dx, isum_w[t], pairs_w), term<Type>(sv, dx, isum_v[t], pairs_v));
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
