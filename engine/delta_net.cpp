// Heads do not meet before the output projection: each runs over the whole chunk with its state in cache.
#include "engine/delta_net.h"

#include <cmath>

namespace kvasir {
namespace {

constexpr int64_t kFewRows = 2;         // rows that one thread quantises sooner than several
constexpr int64_t kTaskChannels = 512;  // channels of a convolution task
constexpr float kL2Eps = 1e-6F;         // the family's constant, in no file

}  // namespace

DeltaNetBlock::DeltaNetBlock(const Compute& compute, const ModelConfig& config)
    : compute_(compute), config_(&config), matmuls_(compute, 4) {}

Expected<DeltaNetBlock> DeltaNetBlock::create(const Compute& compute, const ModelConfig& c, int64_t max_rows) {
  DeltaNetBlock b(compute, c);
  b.max_rows_ = max_rows;
  b.inner_ = c.n_value_heads * c.state_dim;
  b.channels_ = 2 * c.n_key_heads * c.state_dim + b.inner_;
  const int64_t n = max_rows * (2 * b.channels_ + 2 * b.inner_ + 2 * c.n_value_heads);
  KV_TRY(b.scratch_, Memory::reserve(uint64_t(n) * sizeof(float), Memory::Pages::small, "DeltaNet"));
  float* next = b.scratch_.as<float>();
  const auto take = [&](int64_t cols) {
    float* at = next;
    next += max_rows * cols;
    return at;
  };
  b.qkv_ = take(b.channels_);
  b.convolved_ = take(b.channels_);
  b.gate_ = take(b.inner_);
  b.alpha_ = take(c.n_value_heads);
  b.beta_ = take(c.n_value_heads);
  b.heads_out_ = take(b.inner_);
  return b;
}

ActForms DeltaNetBlock::input_forms(const DeltaNetWeights& w) {
  ActForms forms;
  for (const Matrix* m : {&w.qkv, &w.gate, &w.alpha, &w.beta})
    if (m->present()) forms.need(m->act());
  return forms;
}

bool DeltaNetBlock::forward(const DeltaNetWeights& w, const SequenceLayout::Layer& at,
                            std::span<const BatchSlice> slices, const ActRows& rows, ActBuffer& mixed, float* out) {
  const ModelConfig& c = *config_;
  const auto n_slices = int64_t(slices.size());
  matmuls_.add(w.qkv.first, rows, qkv_, channels_);
  matmuls_.add(w.gate.first, rows, gate_, inner_);
  matmuls_.add(w.alpha.first, rows, alpha_, c.n_value_heads);
  matmuls_.add(w.beta.first, rows, beta_, c.n_value_heads);
  matmuls_.run();

  // Heads of the convolution's channels, some at a time: queries, keys, values.
  const int64_t n_heads = 2 * c.n_key_heads + c.n_value_heads;
  const int64_t per_task = std::max(int64_t(1), kTaskChannels / c.state_dim);
  const int64_t n_groups = (n_heads + per_task - 1) / per_task;
  compute_.pool->run(n_slices * n_groups, [&](int64_t task, int) {
    const int64_t first = task % n_groups * per_task;
    for (int64_t h = first; h < std::min(first + per_task, n_heads); ++h)
      convolve(w, at, slices[size_t(task / n_groups)], h);
  });
  compute_.pool->run(n_slices * c.n_value_heads, [&](int64_t task, int) {
    step(w, at, slices[size_t(task / c.n_value_heads)], task % c.n_value_heads);
  });

  ActForms forms;
  forms.need(w.output.act());
  mixed.shape(inner_, forms);
  const auto quantize = [&](int64_t i) { return mixed.write(*compute_.cpu, i, heads_out_ + i * inner_); };
  if (!compute_.all(rows.n_rows, kFewRows, quantize)) return false;
  matmuls_.add(w.output.first, mixed.rows(0, rows.n_rows), out, c.n_embd);
  matmuls_.run();
  return true;
}

// One head's channels over the slice's tokens; queries and keys then to length 1.
void DeltaNetBlock::convolve(const DeltaNetWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice,
                             int64_t head) {
  const ModelConfig& c = *config_;
  const int64_t d = c.state_dim, channel = head * d, offset = slice.row_begin * channels_ + channel;
  compute_.ops->conv({.n_taps = c.conv_kernel,
                      .n_channels = d,
                      .n_tokens = slice.n_rows,
                      .stride = channels_,
                      .weights = w.conv.data() + channel,
                      .in = qkv_ + offset,
                      .history = slice.sequence->recurrent.values.data() + at.history + channel,
                      .out = convolved_ + offset});
  if (head >= 2 * c.n_key_heads) return;
  const float scale = head < c.n_key_heads ? 1.0F / std::sqrt(float(d)) : 1.0F;
  for (int64_t t = 0; t < slice.n_rows; ++t)
    compute_.ops->l2_norm(convolved_ + offset + t * channels_, d, kL2Eps, scale);
}

// One value head over the slice's tokens. Value heads are tiled: head h belongs to key head h mod n_key_heads.
void DeltaNetBlock::step(const DeltaNetWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice,
                         int64_t head) {
  const ModelConfig& c = *config_;
  const int64_t d = c.state_dim, key_head = head % c.n_key_heads, n_heads = c.n_value_heads;
  float* decay = alpha_ + slice.row_begin * n_heads + head;
  float* beta = beta_ + slice.row_begin * n_heads + head;
  for (int64_t t = 0; t < slice.n_rows; ++t) {
    decay[t * n_heads] = delta_decay(w.a[size_t(head)], decay[t * n_heads] + w.dt[size_t(head)]);
    beta[t * n_heads] = scalar_sigmoid(beta[t * n_heads]);
  }
  const float* heads = convolved_ + slice.row_begin * channels_;
  float* out = heads_out_ + slice.row_begin * inner_ + head * d;
  compute_.ops->delta({.dim = d,
                       .n_tokens = slice.n_rows,
                       .q = heads + key_head * d,
                       .k = heads + (c.n_key_heads + key_head) * d,
                       .v = heads + (2 * c.n_key_heads + head) * d,
                       .stride = channels_,
                       .decay = decay,
                       .beta = beta,
                       .gate_stride = n_heads,
                       .state = slice.sequence->recurrent.values.data() + at.state + head * delta_state_floats(d),
                       .out = out,
                       .out_stride = inner_});
  for (int64_t t = 0; t < slice.n_rows; ++t) {
    float* row = out + t * inner_;
    compute_.ops->rms_norm(row, w.norm.data(), d, c.rms_eps, row);
    compute_.ops->silu_mul(row, gate_ + (slice.row_begin + t) * inner_ + head * d, d);
  }
}

}  // namespace kvasir
