// A loaded model and the sequences that run through it: token ids in, logits out.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "core/thread_pool.h"
#include "engine/model_config.h"
#include "formats/gguf.h"
#include "kernels/ops.h"

namespace kvasir {

struct LoadOptions {
  const CpuBackend* backend = nullptr;  // from kernels/select.h
  int64_t context = 0;                  // positions a sequence may have; 0: the model's own context_length
  // Called now and then while weights are packed: bytes done and in all. May be empty. Returning false cancels.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// What one decoded token reads of the weights, as stored; experts count n_experts_used of n_experts.
struct WeightBytes {
  uint64_t experts = 0, shared_expert = 0, attention = 0, router = 0, head = 0, other = 0;
  uint64_t total() const { return experts + shared_expert + attention + router + head + other; }
};

// One sequence's memory: KV cache of the attention layers, recurrent and convolution state of the DeltaNet layers.
// Made by Model::new_sequence; must not outlive the model.
class Sequence {
 public:
  ~Sequence();
  int64_t n_tokens() const;  // positions filled
  int64_t capacity() const;  // positions in all
  void clear();              // back to position 0, with nothing of the past left

  struct Impl;  // engine/sequence.h; the engine's own parts use it

 private:
  friend class Model;
  explicit Sequence(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Some tokens to add to one sequence in a forward pass.
struct SequenceTokens {
  Sequence* sequence = nullptr;     // each sequence at most once per call
  std::span<const int32_t> tokens;  // at least 1
  enum class Logits { none, last, all } logits = Logits::last;
};

// What the MoE block of one layer saw and did, for golden tests: called once per layer and forward pass.
struct MoeTrace {
  int64_t layer = 0, n_rows = 0, n_embd = 0, n_used = 0;
  const float* input = nullptr;      // [n_rows][n_embd], normalised
  const int32_t* experts = nullptr;  // [n_rows][n_used], by descending weight
  const float* weights = nullptr;    // [n_rows][n_used]
  const float* routed = nullptr;     // [n_rows][n_embd]
  const float* output = nullptr;     // [n_rows][n_embd], with the shared expert
};

// Logits of a sequence have the same bytes for any thread count, any cut of its tokens into calls, alone or with
// others. One forward at a time per model.
class Model {
 public:
  // gguf and pool are borrowed for the model's life. Fails naming each missing or misshapen tensor.
  static Expected<std::unique_ptr<Model>> load(const Gguf& gguf, ThreadPool& pool, const LoadOptions& options);
  ~Model();

  const ModelConfig& config() const;
  WeightBytes bytes_per_token() const;
  uint64_t packed_bytes() const;  // memory that holds repacked weights

  // Fails with limit if the memory cannot be had; memory is touched only as positions fill.
  Expected<std::unique_ptr<Sequence>> new_sequence();

  // Runs up to kMaxBatchRows tokens over all entries; larger calls are cut into chunks. logits receives n_vocab floats
  // per row that asked for them, in order of entries. Fails with invalid_argument for token ids outside the vocabulary,
  // with limit if a sequence would pass its capacity (both numbers are named), with numeric (layer named) for NaN or
  // infinity; the sequences that took part are then unusable until cleared.
  Expected<void> forward(std::span<const SequenceTokens> batch, std::span<float> logits);

  void set_moe_trace(std::function<void(const MoeTrace&)> trace);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir
