// Four steps: q, k, v in one loop; each row's heads normalised, rotated, cached; heads by tiles of queries; output.
#include "engine/attention.h"

#include <cmath>

namespace kvasir {
namespace {

constexpr int64_t kFewRows = 2;    // rows that one thread prepares sooner than several
constexpr int64_t kQueries = 64;   // queries of a task: enough that loading a tile of keys costs little
constexpr int64_t kManyRows = 64;  // a prompt rather than the next tokens of many sequences
constexpr int64_t kLinePositions = 16;

}  // namespace

AttentionBlock::AttentionBlock(const Compute& compute, const ModelConfig& config)
    : compute_(compute), config_(&config), matmuls_(compute, 3) {}

Expected<AttentionBlock> AttentionBlock::create(const Compute& compute, const ModelConfig& c, int64_t max_rows) {
  AttentionBlock a(compute, c);
  const auto n_threads = compute.pool->n_threads();
  a.max_rows_ = max_rows;
  a.q_cols_ = c.n_heads * c.head_dim * (c.gated_attention ? 2 : 1);
  a.n_group_ = c.n_heads / c.n_kv_heads;
  a.query_rows_ = std::max(int64_t(1), kQueries / a.n_group_);
  const int64_t n_queries = a.query_rows_ * a.n_group_;
  a.thread_floats_ = n_queries * (32 + padded(c.head_dim));
  for (int64_t i = 0; i < c.rope_dim / 2; ++i)
    a.frequencies_.push_back(std::pow(c.rope_base, -2.0 * double(i) / double(c.rope_dim)));
  a.cos_.resize(size_t(max_rows * c.rope_dim / 2));
  a.sin_.resize(a.cos_.size());
  a.row_slice_.resize(size_t(max_rows));
  a.task_begin_.reserve(size_t(max_rows + 1));
  a.n_keys_.resize(size_t(n_threads * n_queries));
  const auto floats = [](int64_t n) {
    return Memory::reserve(uint64_t(n) * sizeof(float), Memory::Pages::small, "attention");
  };
  KV_TRY(a.projections_, floats(max_rows * (a.q_cols_ + 2 * c.n_kv_heads * c.head_dim)));
  KV_TRY(a.queries_, floats(max_rows * c.n_heads * c.head_dim));
  KV_TRY(a.heads_out_, floats(max_rows * c.n_heads * c.head_dim));
  KV_TRY(a.scratch_, floats(n_threads * a.thread_floats_));
  return a;
}

ActForms AttentionBlock::input_forms(const AttentionWeights& w) {
  ActForms forms;
  for (const Matrix* m : {&w.q, &w.k, &w.v})
    if (m->present()) forms.need(m->act());
  return forms;
}

void AttentionBlock::set_positions(std::span<const BatchSlice> slices) {
  const auto n = int64_t(frequencies_.size());
  int64_t n_rows = 0;
  for (const BatchSlice& s : slices) {
    for (int64_t i = 0; i < s.n_rows; ++i) row_slice_[size_t(s.row_begin + i)] = &s;
    n_rows += s.n_rows;
  }
  compute_.each(n_rows, kFewRows, [&](int64_t row) {
    const BatchSlice& s = *row_slice_[size_t(row)];
    const auto position = double(s.position + row - s.row_begin);
    for (int64_t i = 0; i < n; ++i) {
      const double angle = position * frequencies_[size_t(i)];
      cos_[size_t(row * n + i)] = float(std::cos(angle));
      sin_[size_t(row * n + i)] = float(std::sin(angle));
    }
  });
}

bool AttentionBlock::forward(const AttentionWeights& w, const SequenceLayout::Layer& at,
                             std::span<const BatchSlice> slices, const ActRows& rows, ActBuffer& mixed, float* out) {
  const ModelConfig& c = *config_;
  const int64_t n_rows = rows.n_rows, kv_cols = c.n_kv_heads * c.head_dim, inner = c.n_heads * c.head_dim;
  float* q = projections_.as<float>();
  float* k = q + max_rows_ * q_cols_;
  matmuls_.add(w.q.first, rows, q, q_cols_);
  matmuls_.add(w.k.first, rows, k, kv_cols);
  matmuls_.add(w.v.first, rows, k + max_rows_ * kv_cols, kv_cols);
  matmuls_.run();
  // Neighbouring positions lie in one cache line of the transposed keys: many rows go by sixteen, to one thread each.
  const int64_t per_task = n_rows > kManyRows ? kLinePositions : 1;
  compute_.each((n_rows + per_task - 1) / per_task, kFewRows, [&](int64_t task) {
    for (int64_t row = task * per_task; row < std::min((task + 1) * per_task, n_rows); ++row)
      prepare(w, at, *row_slice_[size_t(row)], row);
  });

  task_begin_.clear();
  int64_t n_tasks = 0;
  for (const BatchSlice& s : slices) {
    task_begin_.push_back(n_tasks);
    n_tasks += this->n_tasks(s);
  }
  compute_.pool->run(n_tasks, [&](int64_t task, int thread) {
    const auto next = std::upper_bound(task_begin_.begin(), task_begin_.end(), task);
    const BatchSlice& s = slices[size_t(next - 1 - task_begin_.begin())];
    attend(at, s, task - *(next - 1), thread);
  });

  ActForms forms;
  forms.need(w.output.act());
  mixed.shape(inner, forms);
  const auto quantize = [&](int64_t i) { return mixed.write(*compute_.cpu, i, heads_out_.as<float>() + i * inner); };
  if (!compute_.all(n_rows, kFewRows, quantize)) return false;
  matmuls_.add(w.output.first, mixed.rows(0, n_rows), out, c.n_embd);
  matmuls_.run();
  return true;
}

// One row: keys and values into the cache, queries into their place beside the others of the same key head.
void AttentionBlock::prepare(const AttentionWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice,
                             int64_t row) {
  const ModelConfig& c = *config_;
  const int64_t d = c.head_dim, half = c.rope_dim / 2, kv_cols = c.n_kv_heads * d;
  const float *cos = cos_.data() + row * half, *sin = sin_.data() + row * half;
  const float* q = projections_.as<float>() + row * q_cols_;
  float* k = projections_.as<float>() + max_rows_ * q_cols_ + row * kv_cols;
  const float* v = k + max_rows_ * kv_cols;
  const int64_t position = slice.position + row - slice.row_begin;
  for (int64_t h = 0; h < c.n_kv_heads; ++h) {
    compute_.ops->rms_norm(k + h * d, w.k_norm.data(), d, c.rms_eps, k + h * d);
    compute_.ops->rotate(k + h * d, cos, sin, half);
    store_key_value(slice.sequence->tiles(at), position, h, k + h * d, v + h * d);
  }
  const float scale = 1.0F / std::sqrt(float(d));
  for (int64_t h = 0; h < c.n_heads; ++h) {
    const int64_t kv = h / n_group_;
    float* to = queries_.as<float>() + ((kv * max_rows_ + row) * n_group_ + h % n_group_) * d;
    compute_.ops->rms_norm(q + h * (q_cols_ / c.n_heads), w.q_norm.data(), d, c.rms_eps, to);
    compute_.ops->rotate(to, cos, sin, half);
    for (int64_t i = 0; i < d; ++i) to[i] = to[i] * scale;
  }
}

void AttentionBlock::store_key_value(float* tiles, int64_t position, int64_t head, const float* key,
                                     const float* value) {
  const int64_t d = config_->head_dim, tile = position / kTilePositions, lane = position % kTilePositions;
  float* at = tiles + (tile * config_->n_kv_heads + head) * tile_floats(d);
  for (int64_t i = 0; i < d; ++i) at[i * kTilePositions + lane] = key[i];
  std::copy_n(value, d, at + d * kTilePositions + lane * padded(d));
}

int64_t AttentionBlock::n_tasks(const BatchSlice& slice) const {
  return (slice.n_rows + query_rows_ - 1) / query_rows_ * config_->n_kv_heads;
}

void AttentionBlock::attend(const SequenceLayout::Layer& at, const BatchSlice& slice, int64_t task, int thread) {
  const ModelConfig& c = *config_;
  const int64_t d = c.head_dim, kv = task % c.n_kv_heads;
  // The last rows have the most keys: they go first, so that the loop ends with small tasks.
  const int64_t tile = (slice.n_rows + query_rows_ - 1) / query_rows_ - 1 - task / c.n_kv_heads;
  const int64_t begin = tile * query_rows_, end = std::min(begin + query_rows_, slice.n_rows);
  const int64_t first_row = slice.row_begin + begin;
  int64_t* n_keys = n_keys_.data() + thread * query_rows_ * n_group_;
  float* scratch = scratch_.as<float>() + thread * thread_floats_;
  float* out = scratch + query_rows_ * n_group_ * 32;
  for (int64_t i = begin; i < end; ++i) std::fill_n(n_keys + (i - begin) * n_group_, n_group_, slice.position + i + 1);
  compute_.ops->attend({.head_dim = d,
                        .n_queries = (end - begin) * n_group_,
                        .q = queries_.as<float>() + (kv * max_rows_ + first_row) * n_group_ * d,
                        .n_keys = n_keys,
                        .tiles = slice.sequence->tiles(at) + kv * tile_floats(d),
                        .tile_stride = c.n_kv_heads * tile_floats(d),
                        .state = scratch,
                        .out = out});
  for (int64_t i = 0; i < (end - begin) * n_group_; ++i) {
    const int64_t row = first_row + i / n_group_, head = kv * n_group_ + i % n_group_;
    float* to = heads_out_.as<float>() + (row * c.n_heads + head) * d;
    std::copy_n(out + i * padded(d), d, to);
    // The gate lies behind its query in the projection.
    if (c.gated_attention)
      compute_.ops->sigmoid_mul(to, projections_.as<float>() + row * q_cols_ + (2 * head + 1) * d, d);
  }
}

}  // namespace kvasir
