// The shapes of published models, as far as their speed depends on them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace kvasir {

// Names follow the GGUF keys; 0 where the family has no such thing.
struct Shape {
  std::string_view name;          // as in "q3-30b:6"
  std::string_view full_name;     // of the published model
  std::string_view architecture;  // GGUF
  std::string_view pre_tokenizer;
  int64_t n_layers, n_embd, n_vocab, n_experts, n_experts_used, n_ff, n_ff_shared;
  int64_t n_heads, n_kv_heads, head_dim, rope_dim;
  float rope_base;
  int64_t full_attention_interval, conv_kernel, state_dim, n_key_heads, n_value_heads;
};

std::span<const Shape> known_shapes();

}  // namespace kvasir
