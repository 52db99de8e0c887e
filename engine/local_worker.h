// The experts that lie in this machine's memory, as a Worker.
#pragma once
#include <array>
#include <vector>

#include "core/worker.h"
#include "engine/act_buffer.h"
#include "engine/compute.h"
#include "engine/row_tasks.h"
#include "engine/weights.h"

namespace kvasir {

// Computes pairs by expert: all rows of one expert together, gate and up in one parallel loop over all experts, down in
// another. One thread at a time; the pool works inside. Bit-exact by docs/NUMERICS.md, "Expert and combine".
class LocalWorker final : public Worker {
 public:
  // Borrows everything for its own life. Batches of up to max_rows rows with n_experts_used pairs each fit without
  // allocation; more pairs are refused with limit.
  static Expected<std::unique_ptr<LocalWorker>> create(const Compute& compute, const ModelConfig& config,
                                                       std::span<const LayerWeights> layers, int64_t max_rows);

  std::span<const ExpertRange> holdings() const override { return holdings_; }
  Expected<Ticket> submit(const ExpertBatch& batch) override;
  Expected<void> collect(Ticket ticket, TimePoint deadline, std::span<int64_t> sums) override;

  // The same work at once, for the backbone: submit's checks, then the pairs' sums are added into sums (unspecified
  // after an error). If shared_out is not null, the layer's shared expert runs in the same loops, over all rows, into
  // shared_out [n_rows][n_embd].
  Expected<void> run(const ExpertBatch& batch, float* shared_out, std::span<int64_t> sums);

 private:
  // Rows of one expert (or of the shared one, expert -1) that go through its matrices together.
  struct Group {
    int32_t expert;
    int64_t begin;  // of its slots; a slot is one pair, in order of experts
    int64_t n_rows;
    Weights gate, up, down;
    ActRows rows;  // the hidden rows
    ActRows h;     // the rows between up and down
  };
  struct Pending {
    Ticket ticket = 0;  // 0: free
    ExpertBatch batch;
  };
  LocalWorker(const Compute& compute, const ModelConfig& config, std::span<const LayerWeights> layers);
  Expected<void> check(const ExpertBatch& batch) const;
  void group_pairs(const ExpertBatch& batch);
  void add_group(const ExpertBatch& batch, int32_t expert, int64_t begin, int64_t n_rows);
  void gather(const ExpertBatch& batch);
  void gate_up();
  void gate_up_piece(const Group& group, int64_t row_begin, int64_t row_end, int thread);
  Expected<void> quantize_h(int32_t layer);
  Expected<void> down(const ExpertBatch& batch, float* shared_out, std::span<int64_t> sums);
  bool down_piece(const Group& group, std::array<int64_t, 2> rows, float* shared_out, std::span<int64_t> sums,
                  int thread);
  Error not_finite(int32_t layer, int32_t expert) const;

  Compute compute_;
  const ModelConfig& config_;
  std::span<const LayerWeights> layers_;
  std::array<ExpertRange, 1> holdings_;
  int64_t max_pairs_ = 0, max_width_ = 0;

  static constexpr size_t kMaxPending = 64;
  std::array<Pending, kMaxPending> pending_;
  Ticket next_ticket_ = 1;

  std::vector<int64_t> offsets_;   // [n_experts + 1]: where each expert's slots begin
  std::vector<ExpertPair> slots_;  // pairs in order of experts
  std::vector<Group> groups_;
  RowTasks tasks_;
  ActBuffer gathered_;  // hidden rows by slot
  ActBuffer h_rows_, shared_h_rows_;
  Memory h_, shared_h_;       // f32 [max_pairs][n_ff], [max_rows][n_ff_shared]
  Memory up_, y_, own_sums_;  // per thread [max_rows][max_width], [max_rows][n_embd]; [max_rows][n_embd] int64
  int64_t max_rows_ = 0;
};

}  // namespace kvasir
