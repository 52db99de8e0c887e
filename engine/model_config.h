// A model's hyper-parameters, read from its file and from nowhere else.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/gguf.h"

namespace kvasir {

enum class Architecture { qwen35moe, qwen3moe };
enum class LayerKind { full_attention, delta_net };

// Names follow the GGUF keys. Counts and widths are of the file; derived values are named so.
struct ModelConfig {
  Architecture architecture = Architecture::qwen3moe;
  std::string name;
  int64_t n_layers = 0;  // decoder layers: block_count less nextn_predict_layers
  int64_t n_embd = 0;
  int64_t n_vocab = 0;
  int64_t n_context = 0;  // context_length: what the model was made for
  float rms_eps = 0;

  // Attention.
  int64_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int64_t rope_dim = 0;  // the first rope_dim of each head are rotated, by halves
  double rope_base = 0;
  bool gated_attention = false;  // attn_q holds, per head, query then gate (qwen35moe)

  // Experts.
  int64_t n_experts = 0, n_experts_used = 0, n_ff = 0;
  int64_t n_ff_shared = 0;  // 0: no shared expert

  // Gated DeltaNet (qwen35moe).
  int64_t conv_kernel = 0, n_key_heads = 0, n_value_heads = 0, state_dim = 0;

  std::vector<LayerKind> layers;  // [n_layers]

  // Reads and checks; every refusal names the key. Unknown architectures are said to be unknown and the known listed.
  static Expected<ModelConfig> from_gguf(const Gguf& gguf);
};

}  // namespace kvasir
