// Hyper-parameters from GGUF keys, each with its bounds.
#include "engine/model_config.h"

#include <array>

#include "core/limits.h"

namespace kvasir {
namespace {

struct KnownArchitecture {
  std::string_view name;
  Architecture architecture;
};
constexpr std::array kArchitectures = {
    KnownArchitecture{"qwen35moe", Architecture::qwen35moe},
    KnownArchitecture{"qwen3moe", Architecture::qwen3moe},
};

// Keys of one architecture: "embedding_length" is "qwen3moe.embedding_length" in the file.
class Keys {
 public:
  Keys(const Gguf& gguf, std::string_view architecture) : gguf_(gguf), prefix_(architecture) {}
  std::string full(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }

  Expected<int64_t> count(std::string_view key, int64_t max, int64_t min = 1) const {
    return gguf_.integer(full(key), min, max);
  }
  Expected<int64_t> count_or(std::string_view key, int64_t otherwise, int64_t max, int64_t min = 1) const {
    KV_TRY(const auto value, gguf_.optional_integer(full(key), min, max));
    return value.value_or(otherwise);
  }
  Expected<double> real(std::string_view key) const { return gguf_.real(full(key)); }
  Expected<double> real_or(std::string_view key, double otherwise) const {
    KV_TRY(const auto value, gguf_.optional_real(full(key)));
    return value.value_or(otherwise);
  }
  Expected<std::optional<std::string_view>> string(std::string_view key) const {
    return gguf_.optional_string(full(key));
  }
  Expected<std::optional<bool>> boolean(std::string_view key) const { return gguf_.optional_boolean(full(key)); }

 private:
  const Gguf& gguf_;
  std::string_view prefix_;
};

Expected<Architecture> architecture_of(std::string_view name) {
  std::string known;
  for (const auto& a : kArchitectures) {
    if (a.name == name) return a.architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
  }
  return fail(ErrorCode::unsupported, "general.architecture: \"{}\" is unknown; kvasir runs {}", name, known);
}

Expected<void> read_attention(const Keys& keys, ModelConfig& c) {
  KV_TRY(c.n_heads, keys.count("attention.head_count", kMaxDim));
  KV_TRY(c.n_kv_heads, keys.count_or("attention.head_count_kv", c.n_heads, kMaxDim));
  KV_TRY(c.head_dim, keys.count_or("attention.key_length", c.n_embd / c.n_heads, kMaxHeadDim));
  KV_TRY(const auto value_length, keys.count_or("attention.value_length", c.head_dim, kMaxHeadDim));
  KV_TRY(c.rope_dim, keys.count_or("rope.dimension_count", c.head_dim, kMaxHeadDim));
  KV_TRY(c.rope_base, keys.real_or("rope.freq_base", 10000));
  KV_TRY(const auto scaling, keys.string("rope.scaling.type"));
  if (c.n_heads % c.n_kv_heads != 0)
    return fail(ErrorCode::malformed, "{}: {} query heads cannot share {} key heads evenly",
                keys.full("attention.head_count_kv"), c.n_heads, c.n_kv_heads);
  if (c.head_dim < 2 || c.head_dim % 2 != 0 || value_length != c.head_dim)
    return fail(ErrorCode::malformed, "{}: expected an even number, equal to {}; found {} and {}",
                keys.full("attention.key_length"), keys.full("attention.value_length"), c.head_dim, value_length);
  if (c.rope_dim % 2 != 0 || c.rope_dim > c.head_dim)
    return fail(ErrorCode::malformed, "{}: expected an even number up to the head's {}, found {}",
                keys.full("rope.dimension_count"), c.head_dim, c.rope_dim);
  if (!(c.rope_base > 1) || !(c.rope_base < 1e30))
    return fail(ErrorCode::malformed, "{}: expected a number above 1, found {}", keys.full("rope.freq_base"),
                c.rope_base);
  if (scaling && *scaling != "none")
    return fail(ErrorCode::unsupported, "{}: \"{}\" is not supported, only \"none\"", keys.full("rope.scaling.type"),
                *scaling);
  return {};
}

Expected<void> read_experts(const Keys& keys, ModelConfig& c) {
  KV_TRY(c.n_experts, keys.count("expert_count", kMaxExperts));
  KV_TRY(c.n_experts_used, keys.count("expert_used_count", kMaxExpertsUsed));
  KV_TRY(c.n_ff, keys.count("expert_feed_forward_length", kMaxDim));
  KV_TRY(const auto gating, keys.count_or("expert_gating_func", 1, INT32_MAX, 0));
  KV_TRY(const auto normalised, keys.boolean("expert_weights_norm"));
  KV_TRY(const auto scale, keys.real_or("expert_weights_scale", 1));
  if (c.n_experts_used > c.n_experts)
    return fail(ErrorCode::malformed, "{}: {} of {} experts cannot be chosen", keys.full("expert_used_count"),
                c.n_experts_used, c.n_experts);
  // Both families route by softmax over all experts and renormalise what was chosen; a file that asks otherwise would
  // start well and drift.
  if (gating > 1)
    return fail(ErrorCode::unsupported, "{}: expected 1 (softmax), found {}", keys.full("expert_gating_func"), gating);
  if (normalised && !*normalised)
    return fail(ErrorCode::unsupported, "{}: expected true, found false", keys.full("expert_weights_norm"));
  if (scale != 1 && scale != 0)
    return fail(ErrorCode::unsupported, "{}: expected 1, found {}", keys.full("expert_weights_scale"), scale);
  return {};
}

Expected<void> read_delta_net(const Keys& keys, ModelConfig& c) {
  KV_TRY(c.conv_kernel, keys.count("ssm.conv_kernel", 64));
  KV_TRY(c.state_dim, keys.count("ssm.state_size", kMaxHeadDim));
  KV_TRY(c.n_key_heads, keys.count("ssm.group_count", kMaxDim));
  KV_TRY(c.n_value_heads, keys.count("ssm.time_step_rank", kMaxDim));
  KV_TRY(const auto inner, keys.count("ssm.inner_size", kMaxDim));
  if (c.state_dim % 2 != 0)
    return fail(ErrorCode::malformed, "{}: expected an even number, found {}", keys.full("ssm.state_size"),
                c.state_dim);
  if (c.n_value_heads % c.n_key_heads != 0)
    return fail(ErrorCode::malformed, "{}: {} value heads cannot share the {} key heads of {} evenly",
                keys.full("ssm.time_step_rank"), c.n_value_heads, c.n_key_heads, keys.full("ssm.group_count"));
  if (inner != c.n_value_heads * c.state_dim)
    return fail(ErrorCode::malformed, "{}: expected {} heads of {} = {}, found {}", keys.full("ssm.inner_size"),
                c.n_value_heads, c.state_dim, c.n_value_heads * c.state_dim, inner);
  return {};
}

Expected<void> read_layers(const Keys& keys, ModelConfig& c) {
  KV_TRY(const auto n_blocks, keys.count("block_count", kMaxLayers));
  // Blocks that predict further tokens stand behind the decoder's own and are no layers of it.
  KV_TRY(const auto n_predict, keys.count_or("nextn_predict_layers", 0, kMaxLayers, 0));
  if (n_predict >= n_blocks)
    return fail(ErrorCode::malformed, "{}: {} of {} blocks leave no layer", keys.full("nextn_predict_layers"),
                n_predict, n_blocks);
  c.n_layers = n_blocks - n_predict;
  c.layers.assign(size_t(c.n_layers), LayerKind::full_attention);
  if (c.architecture != Architecture::qwen35moe) return {};
  KV_TRY(const auto interval, keys.count_or("full_attention_interval", 4, kMaxLayers));
  for (int64_t i = 0; i < c.n_layers; ++i)
    if ((i + 1) % interval != 0) c.layers[size_t(i)] = LayerKind::delta_net;
  return {};
}

// The embedding's rows. Without one the tokens' count stands in, until loading names the tensor among all that miss.
Expected<int64_t> vocabulary_size(const Gguf& gguf) {
  const auto* embedding = gguf.find_tensor("token_embd.weight");
  if (!embedding) {
    const auto tokens = gguf.strings("tokenizer.ggml.tokens");
    return tokens ? int64_t(tokens->size()) : 0;
  }
  if (embedding->view.n_rows > kMaxVocab)
    return fail(ErrorCode::limit, "tensor token_embd.weight: {} rows, at most {} are supported", embedding->view.n_rows,
                kMaxVocab);
  return embedding->view.n_rows;
}

}  // namespace

Expected<ModelConfig> ModelConfig::from_gguf(const Gguf& gguf) {
  ModelConfig c;
  KV_TRY(const auto architecture, gguf.string("general.architecture"));
  KV_TRY(c.architecture, architecture_of(architecture));
  KV_TRY(const auto name, gguf.optional_string("general.name"));
  c.name = std::string(name.value_or(architecture));
  const Keys keys(gguf, architecture);
  KV_TRY(c.n_embd, keys.count("embedding_length", kMaxDim));
  KV_TRY(c.n_context, keys.count("context_length", kMaxContext));
  KV_TRY(const auto eps, keys.real("attention.layer_norm_rms_epsilon"));
  c.rms_eps = float(eps);
  if (!(eps >= 0) || !(eps < 1))
    return fail(ErrorCode::malformed, "{}: expected a number in [0, 1), found {}",
                keys.full("attention.layer_norm_rms_epsilon"), eps);
  KV_TRY_VOID(read_layers(keys, c));
  KV_TRY_VOID(read_attention(keys, c));
  KV_TRY_VOID(read_experts(keys, c));
  if (c.architecture == Architecture::qwen35moe) {
    c.gated_attention = true;
    KV_TRY(c.n_ff_shared, keys.count_or("expert_shared_feed_forward_length", 0, kMaxDim, 0));
    KV_TRY_VOID(read_delta_net(keys, c));
  }
  KV_TRY(c.n_vocab, vocabulary_size(gguf));
  return c;
}

}  // namespace kvasir
