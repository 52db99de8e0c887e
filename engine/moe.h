// The expert block of a layer: router, experts through Workers, shared expert.
#pragma once
#include <functional>
#include <memory>

#include "engine/local_worker.h"
#include "engine/matmul_group.h"
#include "engine/model.h"

namespace kvasir {

class MoeBlock {
 public:
  static Expected<MoeBlock> create(const Compute& compute, const ModelConfig& config,
                                   std::span<const LayerWeights> layers, int64_t max_rows);

  // Which forms of its input a layer's matrices take.
  static ActForms input_forms(const MoeWeights& w);

  // out [n_rows][n_embd] = the block's output for rows (normalised, in input_forms). trace may be empty; input
  // [n_rows][n_embd] is what it shows. Fails with numeric, naming the layer and where known the expert.
  Expected<void> forward(int64_t layer, const ActRows& rows, const float* input, float* out,
                         const std::function<void(const MoeTrace&)>& trace);

 private:
  MoeBlock(const Compute& compute, const ModelConfig& config, std::span<const LayerWeights> layers);
  Expected<void> choose(int64_t layer, const ActRows& rows);
  void combine(int64_t row, float* out) const;

  Compute compute_;
  const ModelConfig* config_;
  std::span<const LayerWeights> layers_;
  std::unique_ptr<LocalWorker> local_;
  MatmulGroup matmuls_;
  std::vector<float> logits_, probabilities_, shared_logits_, weights_;
  std::vector<int32_t> experts_;
  std::vector<ExpertPair> pairs_;
  Memory sums_, shared_out_;  // int64 and f32 [max_rows][n_embd]
};

}  // namespace kvasir
