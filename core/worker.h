// The hinge between the engine and the network: whoever computes experts is a Worker.
#pragma once
#include <cstdint>
#include <span>

#include "core/activations.h"
#include "core/clock.h"
#include "core/error.h"

namespace kvasir {

// Experts [expert_begin, expert_end) of layers [layer_begin, layer_end).
struct ExpertRange {
  int32_t layer_begin = 0;
  int32_t layer_end = 0;
  int32_t expert_begin = 0;
  int32_t expert_end = 0;
  bool holds(int32_t layer, int32_t expert) const {
    return layer >= layer_begin && layer < layer_end && expert >= expert_begin && expert < expert_end;
  }
};

// Row `row` of a batch goes through expert `expert`; the output is scaled by the router's `weight`.
struct ExpertPair {
  int32_t row = 0;
  int32_t expert = 0;
  float weight = 0;
};

// One layer's work: rows [n_rows][n_embd] (in the forms that the layer's gate and up matrices take) and the pairs to
// compute, in any order. Everything is borrowed until the batch is collected.
struct ExpertBatch {
  int32_t layer = 0;
  ActRows rows;
  std::span<const ExpertPair> pairs;
};

using Ticket = uint64_t;

// Computes experts. A batch's result is, for each row, the integer sum over its pairs of
// rint(weight * expert(row) * 2^24) (docs/NUMERICS.md, "Expert and combine"): the same bytes whoever computes it.
class Worker {
 public:
  virtual ~Worker() = default;

  // What this worker can compute. Stable between two calls of submit on the same thread.
  virtual std::span<const ExpertRange> holdings() const = 0;

  // Starts a batch whose pairs all lie in holdings() with 0 <= row < n_rows; any other pair is refused with
  // invalid_argument before any work. Each ticket must be collected exactly once.
  virtual Expected<Ticket> submit(const ExpertBatch& batch) = 0;

  // Waits for the batch and adds its sums into sums [n_rows][n_embd] (int64, units of 2^-24). Fails with `deadline`
  // when time runs out and with `numeric` when an output is not finite; sums are then unchanged.
  virtual Expected<void> collect(Ticket ticket, TimePoint deadline, std::span<int64_t> sums) = 0;
};

}  // namespace kvasir
