// Routes once, here, for all workers; adds what they return.
#include "engine/moe.h"

#include "engine/router.h"

namespace kvasir {
namespace {

constexpr int64_t kFewRows = 8;  // rows that one thread handles sooner than several

}  // namespace

MoeBlock::MoeBlock(const Compute& compute, const ModelConfig& config, std::span<const LayerWeights> layers)
    : compute_(compute), config_(&config), layers_(layers), matmuls_(compute, 2) {}

Expected<MoeBlock> MoeBlock::create(const Compute& compute, const ModelConfig& config,
                                    std::span<const LayerWeights> layers, int64_t max_rows) {
  MoeBlock m(compute, config, layers);
  KV_TRY(m.local_, LocalWorker::create(compute, config, layers, max_rows));
  m.logits_.resize(size_t(max_rows * config.n_experts));
  m.probabilities_.resize(m.logits_.size());
  m.shared_logits_.resize(size_t(max_rows));
  m.weights_.resize(size_t(max_rows * config.n_experts_used));
  m.experts_.resize(m.weights_.size());
  m.pairs_.resize(m.weights_.size());
  const auto n = uint64_t(max_rows * config.n_embd);
  KV_TRY(m.sums_, Memory::reserve(n * sizeof(int64_t), Memory::Pages::small, "expert sums"));
  KV_TRY(m.shared_out_, Memory::reserve(n * sizeof(float), Memory::Pages::small, "shared expert"));
  return m;
}

ActForms MoeBlock::input_forms(const MoeWeights& w) {
  ActForms forms;
  for (const Matrix* m : {&w.router, &w.gate, &w.up, &w.shared_router, &w.shared_gate, &w.shared_up})
    if (m->present()) forms.need(m->act());
  return forms;
}

Expected<void> MoeBlock::choose(int64_t layer, const ActRows& rows) {
  const MoeWeights& w = layers_[size_t(layer)].moe;
  const int64_t n_experts = config_->n_experts, n_used = config_->n_experts_used;
  matmuls_.add(w.router.first, rows, logits_.data(), n_experts);
  if (w.shared_router.present()) matmuls_.add(w.shared_router.first, rows, shared_logits_.data(), 1);
  matmuls_.run();
  const auto route_row = [&](int64_t i) {
    const auto ids = std::span(experts_).subspan(size_t(i * n_used), size_t(n_used));
    const auto weights = std::span(weights_).subspan(size_t(i * n_used), size_t(n_used));
    const auto all = [&](std::vector<float>& v) {
      return std::span(v).subspan(size_t(i * n_experts), size_t(n_experts));
    };
    if (!route(*compute_.ops, all(logits_), true, all(probabilities_), ids, weights)) return false;
    for (size_t j = 0; j < ids.size(); ++j) pairs_[size_t(i * n_used) + j] = {int32_t(i), ids[j], weights[j]};
    return true;
  };
  if (!compute_.all(rows.n_rows, kFewRows, route_row))
    return fail(ErrorCode::numeric, "layer {}: the router gives values that are not finite", layer);
  return {};
}

// out = routed (already there) + sigmoid(shared router) * shared expert
void MoeBlock::combine(int64_t row, float* out) const {
  const int64_t n = config_->n_embd;
  compute_.ops->add_scaled(out + row * n, scalar_sigmoid(shared_logits_[size_t(row)]),
                           shared_out_.as<float>() + row * n, n);
}

Expected<void> MoeBlock::forward(int64_t layer, const ActRows& rows, const float* input, float* out,
                                 const std::function<void(const MoeTrace&)>& trace) {
  const int64_t n = config_->n_embd, n_rows = rows.n_rows, n_used = config_->n_experts_used;
  const bool shared = layers_[size_t(layer)].moe.shared_gate.present();
  KV_TRY_VOID(choose(layer, rows));
  const std::span<int64_t> sums(sums_.as<int64_t>(), size_t(n_rows * n));
  compute_.each(n_rows, kFewRows, [&](int64_t i) { std::fill_n(sums.data() + i * n, n, 0); });
  const ExpertBatch batch{int32_t(layer), rows, std::span(pairs_).first(size_t(n_rows * n_used))};
  KV_TRY_VOID(local_->run(batch, shared ? shared_out_.as<float>() : nullptr, sums));
  compute_.each(n_rows, kFewRows, [&](int64_t i) { compute_.cpu->fixed_to_f32(sums.data() + i * n, n, out + i * n); });
  std::vector<float> routed;
  if (trace) routed.assign(out, out + n_rows * n);
  if (shared) compute_.each(n_rows, kFewRows, [&](int64_t i) { combine(i, out); });
  if (trace) trace({layer, n_rows, n, n_used, input, experts_.data(), weights_.data(), routed.data(), out});
  return {};
}

}  // namespace kvasir
