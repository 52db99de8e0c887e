// Ops on one row: norms, rotation, gates, softmax, convolution. Included by the ops_*.cpp only.
#pragma once
#include "kernels/backbone/backbone.h"
#include "kernels/backbone/lanes.h"

namespace kvasir {
namespace {

float sum_of_squares(const float* x, int64_t n) {
  Lanes acc = {};
  for_lanes(n, [&](auto get, auto) {
    const Lanes v = get(x);
    acc = acc + v * v;
  });
  return sum(acc);
}

void rms_norm(const float* x, const float* w, int64_t n, float eps, float* out) {
  const float scale = 1.0F / __builtin_sqrtf(sum_of_squares(x, n) / float(n) + eps);
  for_lanes(n, [&](auto get, auto put) { put(out, get(x) * scale * get(w)); });
}

void l2_norm(float* x, int64_t n, float eps, float scale) {
  const float factor = scale / __builtin_sqrtf(sum_of_squares(x, n) + eps);
  for_lanes(n, [&](auto get, auto put) { put(x, get(x) * factor); });
}

void rotate(float* x, const float* cos, const float* sin, int64_t n) {
  float* y = x + n;
  for_lanes(n, [&](auto get, auto put) {
    const Lanes a = get(x), b = get(y), c = get(cos), s = get(sin);
    put(x, a * c - b * s);
    put(y, b * c + a * s);
  });
}

void silu_mul(float* x, const float* gate, int64_t n) {
  for_lanes(n, [&](auto get, auto put) { put(x, get(x) * silu(get(gate))); });
}

void sigmoid_mul(float* x, const float* gate, int64_t n) {
  for_lanes(n, [&](auto get, auto put) { put(x, get(x) * sigmoid(get(gate))); });
}

void add(float* x, const float* y, int64_t n) {
  for_lanes(n, [&](auto get, auto put) { put(x, get(x) + get(y)); });
}

void add_scaled(float* x, float factor, const float* y, int64_t n) {
  for_lanes(n, [&](auto get, auto put) { put(x, get(x) + factor * get(y)); });
}

void softmax(const float* x, int64_t n, float* out) {
  float top = x[0];
  for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
  Lanes acc = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes e = exp_negative(load(x + i) - top);
    store(out + i, e);
    acc = acc + e;
  }
  if (i < n) {
    store_part(out + i, exp_negative(load_part(x + i, n - i) - top), n - i);
    acc = acc + load_part(out + i, n - i);
  }
  const float total = sum(acc);
  for_lanes(n, [&](auto get, auto put) { put(out, get(out) / total); });
}

// Row t - n_taps + 1 + tap of the input, which before the first token is the history.
const float* conv_row(const ConvArgs& a, int64_t t, int64_t tap) {
  const int64_t row = t - a.n_taps + 1 + tap;
  return row < 0 ? a.history + (row + a.n_taps - 1) * a.stride : a.in + row * a.stride;
}

void conv(const ConvArgs& a) {
  for (int64_t t = 0; t < a.n_tokens; ++t)
    for_lanes(a.n_channels, [&](auto get, auto put) {
      Lanes acc = {};
      for (int64_t tap = 0; tap < a.n_taps; ++tap)
        acc = acc + get(a.weights + tap * a.stride) * get(conv_row(a, t, tap));
      put(a.out + t * a.stride, silu(acc));
    });
  // Oldest first: a row is only overwritten after it was read.
  for (int64_t tap = 0; tap + 1 < a.n_taps; ++tap)
    __builtin_memmove(a.history + tap * a.stride, conv_row(a, a.n_tokens, tap), size_t(a.n_channels) * 4);
}

}  // namespace
}  // namespace kvasir
