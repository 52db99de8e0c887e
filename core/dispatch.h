// Where a layer's experts are computed: the engine asks, and whoever knows other machines answers.
#pragma once
#include <vector>

#include "core/worker.h"

namespace kvasir {

// Takes pairs away from the engine and brings their sums back. One thread calls; several passes may be out at once, so
// that some sequences compute while others wait.
class Dispatch {
 public:
  virtual ~Dispatch() = default;
  using Pass = uint64_t;

  // Sends off the pairs that others will compute and writes those that are to be computed here into `here`, in their
  // order. What batch borrows must stay until the pass is finished. Each pass must be finished or dropped once.
  // Fails with unavailable if a pair can be computed nowhere.
  virtual Expected<Pass> start(const ExpertBatch& batch, std::vector<ExpertPair>& here) = 0;

  // Whether finish would not wait.
  virtual bool ready(Pass pass) = 0;

  // Waits, each worker no longer than its deadline, and adds what came into sums [n_rows][n_embd] (as
  // Worker::collect). Pairs that nobody delivered are written into `late`: the caller computes them. Fails with
  // unavailable, naming layer and experts, if such a pair cannot be computed here; sums are then unspecified.
  virtual Expected<void> finish(Pass pass, std::span<int64_t> sums, std::vector<ExpertPair>& late) = 0;
  virtual void drop(Pass pass) = 0;

  // How many workers were caught with a wrong byte so far. With wait, first completes the checks of all passes finished
  // so far. When the number grows, what was computed since may be wrong and must be computed again.
  virtual int64_t n_lies(bool wait) = 0;
};

}  // namespace kvasir
