// Matrix product for types with blocks of 32: one f32 term per block, row and activation row.
#include "core/error.h"
#include "kernels/x86/avx512_dot.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/avx512_terms.h"
#include "kernels/x86/avx512_types.h"

namespace kvasir::avx512 {
namespace {

template <class Type>
struct Kernel {
  static constexpr int kBlock = 32, kGroupBlock = Type::kBytes * x86::kGroupRows;

  template <int n>
  static void few(const uint8_t* p, const A8Rows& x, int64_t n_cols, __mmask16 mask, float* out, int64_t stride) {
    Accumulators<n> acc;
    acc.clear(n);
    for (int64_t b = 0; b < n_cols / 32; ++b, p += kGroupBlock) {
      prefetch<kGroupBlock>(p);
      __m512i w[8];
      Type::codes(p, w);
      const __m512 d = Type::d(p), m = minima<Type>(p);
      for (int t = 0; t < n; ++t) {
        const int64_t at = t * n_cols + b * 32;
        const int s = x.sums[at / 16] + x.sums[at / 16 + 1];
        __m512i isum = _mm512_set1_epi32(-Type::kBias * s);
        for (int c = 0; c < 8; ++c) dot_quad(isum, w[c], x.codes + at + 4 * c);
        acc.a[b % 8][t] = _mm512_add_ps(acc.a[b % 8][t], term<Type>(d, m, x.scales[at / 32], isum, s));
      }
    }
    acc.store(n, mask, out, stride);
  }

  static void many(Pair pair, int64_t ahead, const A8Rows& x, int64_t n_cols, int64_t first, int64_t n, Masks masks,
                   float* out, int64_t stride) {
    auto [p, q] = pair;
    ActTile<32> tile;
    Accumulators<kTile> acc_p, acc_q;
    acc_p.clear(n);
    acc_q.clear(n);
    for (int64_t begin = 0; begin < n_cols; begin += 256) {
      const int64_t width = std::min<int64_t>(256, n_cols - begin);
      tile.load(x, n_cols, begin, width, first, n);
      for (int b = 0; b < width / 32; ++b, p += kGroupBlock, q += kGroupBlock) {
        if (ahead) {
          prefetch<kGroupBlock>(p, ahead);
          prefetch<kGroupBlock>(q, ahead);
        }
        pair_terms(p, q, tile, b, n, acc_p.a[b], acc_q.a[b]);
      }
    }
    acc_p.store(n, masks[0], out, stride);
    acc_q.store(n, masks[1], out + 16, stride);
  }

 private:
  static void pair_terms(const uint8_t* p, const uint8_t* q, const ActTile<32>& x, int b, int64_t n, __m512* acc_p,
                         __m512* acc_q) {
    __m512i w[8], v[8];
    Type::codes(p, w);
    Type::codes(q, v);
    const __m512 dw = Type::d(p), dv = Type::d(q), mw = minima<Type>(p), mv = minima<Type>(q);
    for (int64_t t = 0; t < n; ++t) {
      // Two chains of four for each group: half the latency, which is what limits how many rows are in flight.
      __m512i low_w = _mm512_setzero_si512(), high_w = low_w, low_v = low_w, high_v = low_w;
      for (int c = 0; c < 4; ++c) {
        const __m512i low = broadcast_quad(x.codes[t] + 32 * b + 4 * c);
        const __m512i high = broadcast_quad(x.codes[t] + 32 * b + 4 * c + 16);
        low_w = _mm512_dpbusd_epi32(low_w, w[c], low);
        low_v = _mm512_dpbusd_epi32(low_v, v[c], low);
        high_w = _mm512_dpbusd_epi32(high_w, w[c + 4], high);
        high_v = _mm512_dpbusd_epi32(high_v, v[c + 4], high);
      }
      const int s = x.sums[t][b];
      const __m512i offset = _mm512_set1_epi32(Type::kBias * s);
      const __m512i sum_w = _mm512_sub_epi32(_mm512_add_epi32(low_w, high_w), offset);
      const __m512i sum_v = _mm512_sub_epi32(_mm512_add_epi32(low_v, high_v), offset);
      const float dx = x.scales[t][b];
      acc_p[t] = _mm512_add_ps(acc_p[t], term<Type>(dw, mw, dx, sum_w, s));
      acc_q[t] = _mm512_add_ps(acc_q[t], term<Type>(dv, mv, dx, sum_v, s));
    }
  }
};

}  // namespace

void matmul_32(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride) {
  const auto run = [&]<class Type>(Type) {
    product<Kernel<Type>>(w, row_begin, row_end, x.a8_32, x.n_rows, out, stride);
  };
  switch (w.type) {
    case QuantType::q4_0:
      return run(Q4_0());
    case QuantType::q4_1:
      return run(Q4_1());
    case QuantType::q5_0:
      return run(Q5_0());
    case QuantType::q5_1:
      return run(Q5_1());
    case QuantType::q8_0:
      return run(Q8_0());
    case QuantType::iq4_nl:
      return run(Iq4Nl());
    case QuantType::mxfp4:
      return run(Mxfp4());
    default:
      KV_CHECK(false, "no type with blocks of 32");
  }
}

}  // namespace kvasir::avx512
