// Grouping, two loops, integer sums.
#include "engine/local_worker.h"

#include <cmath>

#include "core/limits.h"

namespace kvasir {
namespace {

constexpr int32_t kShared = -1;
constexpr int64_t kTaskOutputs = 131072;  // floats that gate and up each give in a task: 512 KiB, to stay in cache
constexpr int64_t kFewRows = 16;          // up to here a loop over rows costs less than sharing it

}  // namespace

LocalWorker::LocalWorker(const Compute& compute, const ModelConfig& config, std::span<const LayerWeights> layers)
    : compute_(compute),
      config_(config),
      layers_(layers),
      holdings_{ExpertRange{0, int32_t(config.n_layers), 0, int32_t(config.n_experts)}} {}

Expected<std::unique_ptr<LocalWorker>> LocalWorker::create(const Compute& compute, const ModelConfig& config,
                                                           std::span<const LayerWeights> layers, int64_t max_rows) {
  std::unique_ptr<LocalWorker> w(new LocalWorker(compute, config, layers));
  const int64_t n_threads = compute.pool->n_threads();
  w->max_rows_ = max_rows;
  w->max_pairs_ = max_rows * config.n_experts_used;
  w->max_width_ = std::max(config.n_ff, config.n_ff_shared);
  w->offsets_.resize(size_t(config.n_experts + 1));
  w->slots_.resize(size_t(w->max_pairs_));
  // One group an expert, more only where an expert has more than max_rows pairs, and the shared one.
  const int64_t max_groups = std::min(config.n_experts, w->max_pairs_) + config.n_experts_used + 1;
  w->groups_.reserve(size_t(max_groups));
  w->tasks_.reserve(max_groups);
  const auto floats = [](int64_t n, std::string_view what) {
    return Memory::reserve(uint64_t(n) * sizeof(float), Memory::Pages::small, what);
  };
  KV_TRY(w->gathered_, ActBuffer::create(w->max_pairs_, config.n_embd));
  KV_TRY(w->h_rows_, ActBuffer::create(w->max_pairs_, config.n_ff));
  KV_TRY(w->shared_h_rows_, ActBuffer::create(max_rows, config.n_ff_shared));
  KV_TRY(w->h_, floats(w->max_pairs_ * config.n_ff, "expert activations"));
  KV_TRY(w->shared_h_, floats(max_rows * config.n_ff_shared, "expert activations"));
  KV_TRY(w->up_, floats(n_threads * max_rows * w->max_width_, "expert activations"));
  KV_TRY(w->y_, floats(n_threads * max_rows * config.n_embd, "expert outputs"));
  KV_TRY(w->own_sums_, floats(2 * max_rows * config.n_embd, "expert sums"));
  return w;
}

Expected<Ticket> LocalWorker::submit(const ExpertBatch& batch) {
  KV_TRY_VOID(check(batch));
  for (Pending& p : pending_) {
    if (p.ticket != 0) continue;
    p = {next_ticket_++, batch};
    return p.ticket;
  }
  return fail(ErrorCode::limit, "{} batches wait to be collected already", kMaxPending);
}

Expected<void> LocalWorker::collect(Ticket ticket, TimePoint deadline, std::span<int64_t> sums) {
  const auto p = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& q) { return q.ticket == ticket; });
  KV_CHECK(ticket != 0 && p != pending_.end(), "a ticket that is not out");
  p->ticket = 0;
  if (Clock::now() >= deadline) return fail(ErrorCode::deadline, "layer {}: no time left", p->batch.layer);
  // The sums of a batch that fails half way must not show.
  const auto n = size_t(p->batch.rows.n_rows * config_.n_embd);
  const std::span<int64_t> own(own_sums_.as<int64_t>(), n);
  std::fill(own.begin(), own.end(), 0);
  KV_TRY_VOID(run(p->batch, nullptr, own));
  for (size_t i = 0; i < n; ++i) sums[i] = int64_t(uint64_t(sums[i]) + uint64_t(own[i]));
  return {};
}

Expected<void> LocalWorker::check(const ExpertBatch& batch) const {
  if (batch.layer < 0 || batch.layer >= config_.n_layers)
    return fail(ErrorCode::invalid_argument, "layer {}: this worker holds layers 0 to {}", batch.layer,
                config_.n_layers - 1);
  if (batch.rows.n_rows < 1 || batch.rows.n_rows > max_rows_ || batch.rows.n_cols != config_.n_embd)
    return fail(ErrorCode::invalid_argument, "layer {}: {} rows of {}, expected 1 to {} rows of {}", batch.layer,
                batch.rows.n_rows, batch.rows.n_cols, max_rows_, config_.n_embd);
  if (int64_t(batch.pairs.size()) > max_pairs_)
    return fail(ErrorCode::limit, "layer {}: {} pairs, at most {} are computed at once", batch.layer,
                batch.pairs.size(), max_pairs_);
  for (const ExpertPair& p : batch.pairs)
    if (p.row < 0 || p.row >= batch.rows.n_rows || p.expert < 0 || p.expert >= config_.n_experts)
      return fail(ErrorCode::invalid_argument, "layer {}: row {} through expert {}; there are {} rows and {} experts",
                  batch.layer, p.row, p.expert, batch.rows.n_rows, config_.n_experts);
  const MoeWeights& w = layers_[size_t(batch.layer)].moe;
  for (const ActType act : {w.gate.act(), w.up.act()}) {
    const bool there = act == ActType::f32     ? batch.rows.f32 != nullptr
                       : act == ActType::a8_32 ? batch.rows.a8_32.codes != nullptr
                                               : batch.rows.a8_256.codes != nullptr;
    if (!there)
      return fail(ErrorCode::invalid_argument, "layer {}: the rows lack the form that its experts take", batch.layer);
  }
  return {};
}

Expected<void> LocalWorker::run(const ExpertBatch& batch, float* shared_out, std::span<int64_t> sums) {
  KV_TRY_VOID(check(batch));
  const MoeWeights& w = layers_[size_t(batch.layer)].moe;
  ActForms forms;
  forms.need(w.down.act());
  h_rows_.shape(config_.n_ff, forms);
  group_pairs(batch);
  gather(batch);
  if (shared_out) {
    ActForms shared_forms;
    shared_forms.need(w.shared_down.act());
    shared_h_rows_.shape(config_.n_ff_shared, shared_forms);
    groups_.push_back({kShared, 0, batch.rows.n_rows, w.shared_gate.first, w.shared_up.first, w.shared_down.first,
                       batch.rows, shared_h_rows_.rows(0, batch.rows.n_rows)});
  }
  if (groups_.empty()) return {};
  gate_up();
  KV_TRY_VOID(quantize_h(batch.layer));
  return down(batch, shared_out, sums);
}

// A counting sort by expert; within one, pairs keep their order.
void LocalWorker::group_pairs(const ExpertBatch& batch) {
  std::fill(offsets_.begin(), offsets_.end(), 0);
  for (const ExpertPair& p : batch.pairs) ++offsets_[size_t(p.expert) + 1];
  for (size_t e = 1; e < offsets_.size(); ++e) offsets_[e] += offsets_[e - 1];
  for (const ExpertPair& p : batch.pairs) slots_[size_t(offsets_[size_t(p.expert)]++)] = p;
  // Each offset now stands where its expert ends.
  groups_.clear();
  int64_t begin = 0;
  for (int64_t e = 0; e < config_.n_experts; ++e) {
    for (const int64_t end = offsets_[size_t(e)]; begin < end;) {
      const int64_t n = std::min(end - begin, max_rows_);
      add_group(batch, int32_t(e), begin, n);
      begin += n;
    }
  }
}

void LocalWorker::add_group(const ExpertBatch& batch, int32_t expert, int64_t begin, int64_t n_rows) {
  const MoeWeights& w = layers_[size_t(batch.layer)].moe;
  groups_.push_back(
      {expert, begin, n_rows, w.gate.at(expert), w.up.at(expert), w.down.at(expert), {}, h_rows_.rows(begin, n_rows)});
}

// A single row is read where it lies; several are copied together.
void LocalWorker::gather(const ExpertBatch& batch) {
  const MoeWeights& w = layers_[size_t(batch.layer)].moe;
  ActForms forms;
  forms.need(w.gate.act());
  forms.need(w.up.act());
  gathered_.shape(config_.n_embd, forms);
  int64_t n_copied = 0;
  for (Group& g : groups_) {
    g.rows = g.n_rows == 1 ? act_row(batch.rows, slots_[size_t(g.begin)].row) : gathered_.rows(g.begin, g.n_rows);
    if (g.n_rows > 1) n_copied += g.n_rows;
  }
  const auto copy_group = [&](int64_t i) {
    const Group& g = groups_[size_t(i)];
    if (g.n_rows == 1) return;
    for (int64_t s = g.begin; s < g.begin + g.n_rows; ++s) gathered_.copy(batch.rows, slots_[size_t(s)].row, s);
  };
  const auto n_groups = int64_t(groups_.size());
  compute_.each(n_groups, n_copied > kFewRows ? 1 : n_groups + 1, copy_group);
}

void LocalWorker::gate_up() {
  int64_t n_bytes = 0;
  for (const Group& g : groups_)
    n_bytes += g.gate.n_rows * (row_bytes(g.gate.type, g.gate.n_cols) + row_bytes(g.up.type, g.up.n_cols));
  const int64_t task_bytes = RowTasks::task_bytes(n_bytes, compute_.pool->n_threads());
  tasks_.clear();
  for (const Group& g : groups_) {
    // Two matrices a row; with many activation rows less weight is more work, and their outputs should stay in cache.
    const int64_t per_row = row_bytes(g.gate.type, g.gate.n_cols) + row_bytes(g.up.type, g.up.n_cols);
    const int64_t n_rows = std::min(RowTasks::rows_for(task_bytes, per_row, compute_.cpu->row_group),
                                    RowTasks::rows_for(kTaskOutputs, g.n_rows, compute_.cpu->row_group));
    tasks_.add(g.gate.n_rows, n_rows);
  }
  compute_.pool->run(tasks_.size(), [this](int64_t task, int thread) {
    const auto piece = tasks_.at(task);
    gate_up_piece(groups_[size_t(piece.job)], piece.row_begin, piece.row_end, thread);
  });
}

void LocalWorker::gate_up_piece(const Group& g, int64_t row_begin, int64_t row_end, int thread) {
  const int64_t width = g.gate.n_rows;
  float* h = g.expert == kShared ? shared_h_.as<float>() : h_.as<float>() + g.begin * width;
  float* up = up_.as<float>() + thread * max_rows_ * max_width_;
  compute_.cpu->matmul(g.gate, row_begin, row_end, g.rows, h, width);
  compute_.cpu->matmul(g.up, row_begin, row_end, g.rows, up, width);
  for (int64_t t = 0; t < g.n_rows; ++t) {
    float* piece = h + t * width + row_begin;
    compute_.cpu->silu_mul(piece, up + t * width + row_begin, row_end - row_begin, piece);
  }
}

Expected<void> LocalWorker::quantize_h(int32_t layer) {
  const auto quantize = [&](ActBuffer& to, const float* h, int64_t n_rows, int64_t width) {
    std::atomic<int64_t> bad{-1};
    compute_.each(n_rows, kFewRows, [&](int64_t i) {
      if (!to.write(*compute_.cpu, i, h + i * width)) bad.store(i, std::memory_order_relaxed);
    });
    return bad.load(std::memory_order_relaxed);
  };
  const bool shared = groups_.back().expert == kShared;
  const Group* last = shared ? (groups_.size() > 1 ? &groups_[groups_.size() - 2] : nullptr) : &groups_.back();
  const int64_t n_slots = last ? last->begin + last->n_rows : 0;
  if (const int64_t bad = quantize(h_rows_, h_.as<float>(), n_slots, config_.n_ff); bad >= 0)
    return tl::unexpected(not_finite(layer, slots_[size_t(bad)].expert));
  const int64_t n_shared = shared ? groups_.back().n_rows : 0;
  if (quantize(shared_h_rows_, shared_h_.as<float>(), n_shared, config_.n_ff_shared) >= 0)
    return tl::unexpected(not_finite(layer, kShared));
  return {};
}

// A task owns some output rows over all groups, so that no two tasks add into one sum.
Expected<void> LocalWorker::down(const ExpertBatch& batch, float* shared_out, std::span<int64_t> sums) {
  int64_t bytes_per_row = 0;
  for (const Group& g : groups_) bytes_per_row += row_bytes(g.down.type, g.down.n_cols);
  const int64_t n_bytes = bytes_per_row * config_.n_embd;
  int64_t n_rows = RowTasks::rows_for(RowTasks::task_bytes(n_bytes, compute_.pool->n_threads()), bytes_per_row,
                                      compute_.cpu->row_group);
  // Many groups: at least some 64 rows, or each call would do too little.
  if (batch.rows.n_rows > 8) n_rows = std::max(n_rows, RowTasks::rows_for(64, 1, compute_.cpu->row_group));
  tasks_.clear();
  tasks_.add(config_.n_embd, n_rows);
  std::atomic<int64_t> bad{-1};
  compute_.pool->run(tasks_.size(), [&](int64_t task, int thread) {
    const auto piece = tasks_.at(task);
    for (size_t i = 0; i < groups_.size(); ++i)
      if (!down_piece(groups_[i], {piece.row_begin, piece.row_end}, shared_out, sums, thread))
        bad.store(int64_t(i), std::memory_order_relaxed);
  });
  if (bad.load(std::memory_order_relaxed) < 0) return {};
  return tl::unexpected(not_finite(batch.layer, groups_[size_t(bad.load(std::memory_order_relaxed))].expert));
}

bool LocalWorker::down_piece(const Group& g, std::array<int64_t, 2> rows, float* shared_out, std::span<int64_t> sums,
                             int thread) {
  const auto [begin, end] = rows;
  const int64_t n_embd = config_.n_embd;
  float* y = g.expert == kShared ? shared_out : y_.as<float>() + thread * max_rows_ * n_embd;
  compute_.cpu->matmul(g.down, begin, end, g.h, y, n_embd);
  bool good = true;
  for (int64_t t = 0; t < g.n_rows && g.expert != kShared; ++t) {
    const ExpertPair& pair = slots_[size_t(g.begin + t)];
    good &= compute_.cpu->add_fixed(pair.weight, y + t * n_embd + begin, end - begin,
                                    sums.data() + pair.row * n_embd + begin);
  }
  return good;
}

Error LocalWorker::not_finite(int32_t layer, int32_t expert) const {
  const std::string who = expert == kShared ? "the shared expert" : fmt::format("expert {}", expert);
  return {ErrorCode::numeric, fmt::format("layer {}: {} gives values that are not finite or above 2^38", layer, who)};
}

}  // namespace kvasir
