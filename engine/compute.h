// What every part of a forward pass computes with, and loops over rows.
#pragma once
#include <algorithm>
#include <atomic>

#include "core/thread_pool.h"
#include "engine/model_config.h"
#include "kernels/backbone/backbone.h"
#include "kernels/ops.h"

namespace kvasir {

// Borrowed for the model's life.
struct Compute {
  const CpuBackend* cpu = nullptr;
  const BackboneOps* ops = nullptr;
  ThreadPool* pool = nullptr;

  // f(i) for i in [0, n); on this thread alone where the work is too little to share (a barrier costs about 1 us).
  template <class F>
  void each(int64_t n, int64_t worth_sharing, F f) const {
    if (n < worth_sharing) {
      for (int64_t i = 0; i < n; ++i) f(i);
      return;
    }
    pool->run(n, [&f](int64_t i, int) { f(i); });
  }

  // As each, for f that says whether its result is finite; false if any said no.
  template <class F>
  bool all(int64_t n, int64_t worth_sharing, F f) const {
    std::atomic<bool> good{true};
    each(n, worth_sharing, [&](int64_t i) {
      if (!f(i)) good.store(false, std::memory_order_relaxed);
    });
    return good.load(std::memory_order_relaxed);
  }
};

}  // namespace kvasir
