// Figures of the models' published configurations; 122.11 and 30.53 billion parameters by this count.
#include "bench/synth/shapes.h"

#include <array>

namespace kvasir {
namespace {

constexpr std::array kShapes = {
    Shape{.name = "q35-122b",
          .full_name = "Qwen3.5-122B-A10B",
          .architecture = "qwen35moe",
          .pre_tokenizer = "qwen35",
          .n_layers = 48,
          .n_embd = 3072,
          .n_vocab = 248'320,
          .n_experts = 256,
          .n_experts_used = 8,
          .n_ff = 1024,
          .n_ff_shared = 1024,
          .n_heads = 32,
          .n_kv_heads = 2,
          .head_dim = 256,
          .rope_dim = 64,
          .rope_base = 1e7F,
          .full_attention_interval = 4,
          .conv_kernel = 4,
          .state_dim = 128,
          .n_key_heads = 16,
          .n_value_heads = 64},
    Shape{.name = "q3-30b",
          .full_name = "Qwen3-30B-A3B",
          .architecture = "qwen3moe",
          .pre_tokenizer = "qwen2",
          .n_layers = 48,
          .n_embd = 2048,
          .n_vocab = 151'936,
          .n_experts = 128,
          .n_experts_used = 8,
          .n_ff = 768,
          .n_ff_shared = 0,
          .n_heads = 32,
          .n_kv_heads = 4,
          .head_dim = 128,
          .rope_dim = 128,
          .rope_base = 1e6F,
          .full_attention_interval = 0,
          .conv_kernel = 0,
          .state_dim = 0,
          .n_key_heads = 0,
          .n_value_heads = 0},
};

}  // namespace

std::span<const Shape> known_shapes() {
  return kShapes;
}

}  // namespace kvasir
