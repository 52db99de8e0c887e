// A model's weights as the kernels take them: found, checked against the configuration, packed.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "engine/memory.h"
#include "engine/model_config.h"
#include "formats/gguf.h"
#include "kernels/ops.h"

namespace kvasir {

// One matrix, or a stack of equal ones (the experts of a layer), in the layout of the backend. An absent one has
// n_matrices 0.
struct Matrix {
  Weights first;
  int64_t n_matrices = 0;
  int64_t stride = 0;         // bytes from one matrix to the next
  uint64_t stored_bytes = 0;  // of the whole stack, in the file

  bool present() const { return n_matrices > 0; }
  Weights at(int64_t i) const { return {first.type, first.n_rows, first.n_cols, first.data + i * stride}; }
  ActType act() const { return info(first.type).act; }
  // What reading one matrix of the stack costs.
  uint64_t matrix_bytes() const { return n_matrices ? stored_bytes / uint64_t(n_matrices) : 0; }
};

struct AttentionWeights {
  Matrix q, k, v, output;
  std::vector<float> q_norm, k_norm;  // [head_dim]
};

struct DeltaNetWeights {
  Matrix qkv, gate, alpha, beta, output;
  std::vector<float> conv;   // [conv_kernel][channels]: transposed from the file
  std::vector<float> dt, a;  // [n_value_heads]
  std::vector<float> norm;   // [state_dim]
};

struct MoeWeights {
  Matrix router, gate, up, down;
  Matrix shared_router, shared_gate, shared_up, shared_down;  // absent without a shared expert
};

struct LayerWeights {
  std::vector<float> attention_norm, moe_norm;  // [n_embd]
  AttentionWeights attention;                   // of full_attention layers
  DeltaNetWeights delta_net;                    // of delta_net layers
  MoeWeights moe;
};

struct ModelWeights {
  TensorView embedding;  // as in the file
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;  // [n_embd]
  Matrix head;
  Memory packed;

  struct Options {
    const CpuBackend* backend = nullptr;
    std::function<bool(uint64_t done, uint64_t total)> progress;
  };
  // gguf is borrowed for as long as the weights live. Fails naming every missing and misshapen tensor; with limit if
  // memory is short; with cancelled if progress said so.
  static Expected<ModelWeights> load(const Gguf& gguf, const ModelConfig& config, ThreadPool& pool,
                                     const Options& options);
};

}  // namespace kvasir
