// The gated delta rule, token by token, some value columns at a time: columns do not meet, so a slice of the state
// stays in the first-level cache for the whole chunk. Included by the ops_*.cpp only.
#pragma once
#include "kernels/backbone/backbone.h"
#include "kernels/backbone/lanes.h"

namespace kvasir {
namespace {

// width * 16 columns from `column` on; keys are taken by two into two sums, for the adder's latency.
template <int width>
void delta_columns(const DeltaArgs& a, int64_t column) {
  float* state = a.state + column * a.dim;
  const int64_t slice = a.dim * kLanes;
  const int64_t n_last = a.dim - column - (width - 1) * kLanes;  // columns that exist of the last 16
  for (int64_t t = 0; t < a.n_tokens; ++t) {
    const float *q = a.q + t * a.stride, *k = a.k + t * a.stride, *v = a.v + t * a.stride + column;
    const float decay = a.decay[t * a.gate_stride], beta = a.beta[t * a.gate_stride];
    Lanes even[width] = {}, odd[width] = {}, step[width];
    for (int64_t d = 0; d < a.dim; d += 2)
      for (int i = 0; i < width; ++i) {
        even[i] = even[i] + load(state + i * slice + d * kLanes) * k[d];
        odd[i] = odd[i] + load(state + i * slice + (d + 1) * kLanes) * k[d + 1];
      }
    for (int i = 0; i < width; ++i) {
      const Lanes value = i + 1 < width || n_last >= kLanes ? load(v + i * kLanes) : load_part(v + i * kLanes, n_last);
      step[i] = (value - (even[i] + odd[i]) * decay) * beta;
      even[i] = odd[i] = Lanes{};
    }
    for (int64_t d = 0; d < a.dim; d += 2)
      for (int i = 0; i < width; ++i) {
        float* s = state + i * slice + d * kLanes;
        const Lanes s0 = load(s) * decay + k[d] * step[i];
        const Lanes s1 = load(s + kLanes) * decay + k[d + 1] * step[i];
        store(s, s0);
        store(s + kLanes, s1);
        even[i] = even[i] + s0 * q[d];
        odd[i] = odd[i] + s1 * q[d + 1];
      }
    float* out = a.out + t * a.out_stride + column;
    for (int i = 0; i < width; ++i)
      store_part(out + i * kLanes, even[i] + odd[i], i + 1 < width || n_last >= kLanes ? kLanes : n_last);
  }
}

void delta(const DeltaArgs& a) {
  int64_t column = 0;
  for (; column + 4 * kLanes <= a.dim; column += 4 * kLanes) delta_columns<4>(a, column);
  for (; column < a.dim; column += kLanes) delta_columns<1>(a, column);
}

}  // namespace
}  // namespace kvasir
