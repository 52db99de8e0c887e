// The f32 ops of what runs on one node only (docs/NUMERICS.md, "What is not covered"): norms, rotation, attention,
// gated delta rule. Each is written once with fixed lane counts, a fixed order and no fused multiply-add, and compiled
// per instruction set: the same bits from each table, for any cut of the rows into calls.
#pragma once
#include <cstdint>
#include <string_view>

namespace kvasir {

// Keys and values of 64 positions of one head lie together: keys transposed, so that a lane is a position, then values.
//   key   [head_dim][64]
//   value [64][padded(head_dim)]
inline constexpr int64_t kTilePositions = 64;
constexpr int64_t padded(int64_t n) {
  return (n + 15) / 16 * 16;
}
constexpr int64_t tile_floats(int64_t head_dim) {
  return kTilePositions * (head_dim + padded(head_dim));
}

// Softmax attention of some queries over the first n_keys positions of one key/value head.
struct AttendArgs {
  int64_t head_dim = 0;
  int64_t n_queries = 0;
  const float* q = nullptr;         // [n_queries][head_dim], with 1/sqrt(head_dim) already in
  const int64_t* n_keys = nullptr;  // [n_queries], each at least 1
  const float* tiles = nullptr;     // the tile of positions 0 … 63
  int64_t tile_stride = 0;          // floats to the next tile of this head
  float* state = nullptr;           // [n_queries][32] scratch
  float* out = nullptr;             // [n_queries][padded(head_dim)]
};

// The gated delta rule of one value head over consecutive tokens, from the state before them:
//   S = decay S;  S += k (beta (v - S^T k))^T;  out = S^T q
// Strides are floats from one token's row to the next.
struct DeltaArgs {
  int64_t dim = 0;  // of keys and values; even
  int64_t n_tokens = 0;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t stride = 0;  // of q, k and v
  const float *decay = nullptr, *beta = nullptr;
  int64_t gate_stride = 0;
  float* state = nullptr;  // [padded(dim) / 16][dim][16]: 16 value columns of all keys, then the next 16; updated
  float* out = nullptr;    // [n_tokens][dim]
  int64_t out_stride = 0;
};
constexpr int64_t delta_state_floats(int64_t dim) {
  return dim * padded(dim);
}

// Causal depthwise convolution, then SiLU, of some channels over consecutive tokens. All rows are `stride` floats
// apart.
struct ConvArgs {
  int64_t n_taps = 0, n_channels = 0, n_tokens = 0, stride = 0;
  const float* weights = nullptr;  // [n_taps][stride], the last tap meets the current token
  const float* in = nullptr;       // [n_tokens][stride]
  float* history = nullptr;        // [n_taps - 1][stride]: the inputs before these, oldest first; updated
  float* out = nullptr;            // [n_tokens][stride]; not in
};

// Pure functions, callable from any thread. NaN in gives NaN out, never a number. Pointers need no alignment.
struct BackboneOps {
  std::string_view name;  // "baseline", "avx2", "avx512"

  // out [n] = x / sqrt(mean(x^2) + eps) * w. out may be x.
  void (*rms_norm)(const float* x, const float* w, int64_t n, float eps, float* out);
  // x [n] *= scale / sqrt(sum(x^2) + eps)
  void (*l2_norm)(float* x, int64_t n, float eps, float scale);
  // Rotates x [2 n]: (x[i], x[i + n]) by the angle whose cosine and sine are cos[i], sin[i].
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t n);
  // x [n] *= silu(gate) or sigmoid(gate), the functions of docs/NUMERICS.md
  void (*silu_mul)(float* x, const float* gate, int64_t n);
  void (*sigmoid_mul)(float* x, const float* gate, int64_t n);
  // x [n] += y; x [n] += factor * y
  void (*add)(float* x, const float* y, int64_t n);
  void (*add_scaled)(float* x, float factor, const float* y, int64_t n);
  // out [n] = exp(x - max(x)) / sum. out may be x.
  void (*softmax)(const float* x, int64_t n, float* out);
  void (*attend)(const AttendArgs& args);
  void (*delta)(const DeltaArgs& args);
  void (*conv)(const ConvArgs& args);
};

// The table to use beside the CPU target of that name (kernels/ops.h): what that target may run, this may too.
const BackboneOps& backbone_ops(std::string_view cpu_backend);

// exp(a * softplus(x)): the decay of the delta rule, a <= 0. In double, by operations that IEEE 754 defines to the bit.
float delta_decay(float a, float x);
// 1 / (1 + exp(-x)), as above.
float scalar_sigmoid(float x);

}  // namespace kvasir
