// A gated DeltaNet layer: projections, convolution over time, the delta rule per head, gated norm, output.
// The rule: https://arxiv.org/abs/2412.06464
#pragma once
#include <span>
#include <vector>

#include "engine/act_buffer.h"
#include "engine/matmul_group.h"
#include "engine/sequence.h"

namespace kvasir {

class DeltaNetBlock {
 public:
  static Expected<DeltaNetBlock> create(const Compute& compute, const ModelConfig& config, int64_t max_rows);
  static ActForms input_forms(const DeltaNetWeights& w);

  // out [n_rows][n_embd] for rows (normalised). Advances the sequences' states. mixed is scratch for the output
  // projection's input. False if a value is not finite.
  bool forward(const DeltaNetWeights& w, const SequenceLayout::Layer& at, std::span<const BatchSlice> slices,
               const ActRows& rows, ActBuffer& mixed, float* out);

 private:
  DeltaNetBlock(const Compute& compute, const ModelConfig& config);
  void convolve(const DeltaNetWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice, int64_t head);
  void step(const DeltaNetWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice, int64_t head);

  Compute compute_;
  const ModelConfig* config_;
  MatmulGroup matmuls_;
  int64_t max_rows_ = 0;
  int64_t channels_ = 0;  // of the convolution: query heads, key heads, value heads
  int64_t inner_ = 0;     // n_value_heads * state_dim
  Memory scratch_;
  float* qkv_ = nullptr;        // [max_rows][channels]
  float* convolved_ = nullptr;  // [max_rows][channels]
  float* gate_ = nullptr;       // [max_rows][inner]
  float* alpha_ = nullptr;      // [max_rows][n_value_heads], then the decay
  float* beta_ = nullptr;       // [max_rows][n_value_heads]
  float* heads_out_ = nullptr;  // [max_rows][inner]
};

}  // namespace kvasir
