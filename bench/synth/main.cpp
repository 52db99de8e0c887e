// synth: writes GGUF models of true shapes with random weights and fewer layers, to measure speed without the weights.
#include <CLI/CLI.hpp>
#include <charconv>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "bench/synth/random_blocks.h"
#include "bench/synth/shapes.h"
#include "formats/gguf_writer.h"

namespace kvasir {
namespace {

// The types of a mixed file, by role.
struct Types {
  QuantType embedding, head, attention, value, gate_up, down_even, down_odd, shared;
};

// What llama.cpp's Q4_K_M gives such models (shared/tiny/SHAPES.md lists the roles): half of the layers have Q6_K down
// experts and values, here every other one, so that few layers hold the same share as all.
Types types_of(std::string_view mix, const Shape& s) {
  using enum QuantType;
  if (mix == "q8_0") return {q8_0, q8_0, q8_0, q8_0, q8_0, q8_0, q8_0, q8_0};
  const auto attention = s.n_ff_shared ? q8_0 : q4_k;
  return {q4_k, q6_k, attention, s.n_ff_shared ? q8_0 : q6_k, q4_k, q4_k, q6_k, q8_0};
}

// Writes one model's keys and tensors.
class Synth {
 public:
  Synth(const Shape& shape, int64_t n_layers, std::string_view mix, uint64_t seed)
      : s_(shape), n_layers_(n_layers), t_(types_of(mix, shape)), seed_(seed), writer_(shape.architecture) {
    keys();
    matrix("token_embd.weight", t_.embedding, s_.n_vocab, s_.n_embd);
    for (int64_t i = 0; i < n_layers_; ++i) layer(i);
    norm("output_norm.weight", s_.n_embd);
    matrix("output.weight", t_.head, s_.n_vocab, s_.n_embd);
  }
  Expected<void> write(const std::string& path) const { return writer_.write(path); }

 private:
  void key(std::string_view name, int64_t value) {
    if (value) writer_.add_u32(fmt::format("{}.{}", s_.architecture, name), uint32_t(value));
  }
  void keys() {
    writer_.add_string("general.name",
                       fmt::format("{} with {} of {} layers, random", s_.full_name, n_layers_, s_.n_layers));
    key("block_count", n_layers_);
    key("context_length", 32768);
    key("embedding_length", s_.n_embd);
    key("feed_forward_length", s_.n_ff);
    key("attention.head_count", s_.n_heads);
    key("attention.head_count_kv", s_.n_kv_heads);
    key("attention.key_length", s_.head_dim);
    key("attention.value_length", s_.head_dim);
    key("rope.dimension_count", s_.rope_dim);
    writer_.add_f32(fmt::format("{}.rope.freq_base", s_.architecture), s_.rope_base);
    writer_.add_f32(fmt::format("{}.attention.layer_norm_rms_epsilon", s_.architecture), 1e-6F);
    key("expert_count", s_.n_experts);
    key("expert_used_count", s_.n_experts_used);
    key("expert_feed_forward_length", s_.n_ff);
    key("expert_shared_feed_forward_length", s_.n_ff_shared);
    key("full_attention_interval", s_.full_attention_interval);
    key("ssm.conv_kernel", s_.conv_kernel);
    key("ssm.state_size", s_.state_dim);
    key("ssm.group_count", s_.n_key_heads);
    key("ssm.time_step_rank", s_.n_value_heads);
    key("ssm.inner_size", s_.n_value_heads * s_.state_dim);
    vocabulary();
  }

  // The 256 byte tokens in GPT-2's alphabet, then fillers that never occur in text.
  void vocabulary() {
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const int code = plain ? b : next++;
      tokens.push_back(code < 128 ? std::string(1, char(code))
                                  : std::string{char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))});
      types.push_back(1);
    }
    tokens.emplace_back("<|endoftext|>");
    types.push_back(3);
    while (int64_t(tokens.size()) < s_.n_vocab) {
      tokens.push_back(fmt::format("[filler {}]", tokens.size()));
      types.push_back(5);  // UNUSED
    }
    writer_.add_string("tokenizer.ggml.model", "gpt2");
    writer_.add_string("tokenizer.ggml.pre", s_.pre_tokenizer);
    writer_.add_strings("tokenizer.ggml.tokens", tokens);
    writer_.add_i32s("tokenizer.ggml.token_type", types);
    writer_.add_strings("tokenizer.ggml.merges", {});
    writer_.add_u32("tokenizer.ggml.eos_token_id", 256);
    writer_.add_bool("tokenizer.ggml.add_bos_token", false);
  }

  void matrix(const std::string& name, QuantType type, int64_t n_rows, int64_t n_cols, int64_t n_matrices = 1) {
    writer_.add_tensor(name, {type, n_cols, n_rows, n_matrices, nullptr}, random_rows(type, n_cols, ++seed_));
  }
  void norm(const std::string& name, int64_t n) {
    writer_.add_tensor(name, {QuantType::f32, n, 1, 1, nullptr}, constant_f32(1.0F));
  }
  void vector(const std::string& name, int64_t n, float lo, float hi) {
    writer_.add_tensor(name, {QuantType::f32, n, 1, 1, nullptr}, uniform_f32(lo, hi, ++seed_));
  }

  void layer(int64_t i) {
    const auto name = [i](std::string_view part) { return fmt::format("blk.{}.{}", i, part); };
    norm(name("attn_norm.weight"), s_.n_embd);
    norm(name(s_.full_attention_interval ? "post_attention_norm.weight" : "ffn_norm.weight"), s_.n_embd);
    if (s_.full_attention_interval && (i + 1) % s_.full_attention_interval != 0)
      delta_net(name);
    else
      attention(name);
    matrix(name("ffn_gate_inp.weight"), QuantType::f32, s_.n_experts, s_.n_embd);
    matrix(name("ffn_gate_exps.weight"), t_.gate_up, s_.n_ff, s_.n_embd, s_.n_experts);
    matrix(name("ffn_up_exps.weight"), t_.gate_up, s_.n_ff, s_.n_embd, s_.n_experts);
    matrix(name("ffn_down_exps.weight"), i % 2 ? t_.down_odd : t_.down_even, s_.n_embd, s_.n_ff, s_.n_experts);
    if (!s_.n_ff_shared) return;
    vector(name("ffn_gate_inp_shexp.weight"), s_.n_embd, -0.03F, 0.03F);
    matrix(name("ffn_gate_shexp.weight"), t_.shared, s_.n_ff_shared, s_.n_embd);
    matrix(name("ffn_up_shexp.weight"), t_.shared, s_.n_ff_shared, s_.n_embd);
    matrix(name("ffn_down_shexp.weight"), t_.shared, s_.n_embd, s_.n_ff_shared);
  }

  template <class Name>
  void attention(const Name& name) {
    const int64_t q_rows = s_.n_heads * s_.head_dim * (s_.full_attention_interval ? 2 : 1);  // Qwen3.5: query and gate
    matrix(name("attn_q.weight"), t_.attention, q_rows, s_.n_embd);
    matrix(name("attn_k.weight"), t_.attention, s_.n_kv_heads * s_.head_dim, s_.n_embd);
    matrix(name("attn_v.weight"), t_.value, s_.n_kv_heads * s_.head_dim, s_.n_embd);
    matrix(name("attn_output.weight"), t_.attention, s_.n_embd, s_.n_heads * s_.head_dim);
    norm(name("attn_q_norm.weight"), s_.head_dim);
    norm(name("attn_k_norm.weight"), s_.head_dim);
  }

  template <class Name>
  void delta_net(const Name& name) {
    const int64_t inner = s_.n_value_heads * s_.state_dim;
    const int64_t channels = 2 * s_.n_key_heads * s_.state_dim + inner;
    matrix(name("attn_qkv.weight"), t_.attention, channels, s_.n_embd);
    matrix(name("attn_gate.weight"), t_.attention, inner, s_.n_embd);
    matrix(name("ssm_alpha.weight"), t_.attention, s_.n_value_heads, s_.n_embd);
    matrix(name("ssm_beta.weight"), t_.attention, s_.n_value_heads, s_.n_embd);
    matrix(name("ssm_conv1d.weight"), QuantType::f32, channels, s_.conv_kernel);
    vector(name("ssm_dt.bias"), s_.n_value_heads, -4.0F, 1.0F);
    vector(name("ssm_a"), s_.n_value_heads, -8.0F, -0.5F);
    norm(name("ssm_norm.weight"), s_.state_dim);
    matrix(name("ssm_out.weight"), t_.attention, s_.n_embd, inner);
  }

  const Shape& s_;
  int64_t n_layers_;
  Types t_;
  uint64_t seed_;
  GgufWriter writer_;
};

// "q3-30b:6" -> the shape and 6.
Expected<std::pair<const Shape*, int64_t>> parse(const std::string& spec) {
  const auto colon = spec.find(':');
  for (const auto& s : known_shapes()) {
    if (spec.substr(0, colon) != s.name) continue;
    if (colon == std::string::npos) return std::pair(&s, s.n_layers);
    int64_t n = 0;
    const auto digits = std::string_view(spec).substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error == std::errc() && end == digits.data() + digits.size() && n >= 1 && n <= s.n_layers)
      return std::pair(&s, n);
    return fail(ErrorCode::invalid_argument, "{}: layers must be 1 to {}", spec, s.n_layers);
  }
  return fail(ErrorCode::invalid_argument,
              "{}: unknown shape; there are q35-122b, q3-30b, q35-tiny and q3-tiny, as q3-30b:6", spec);
}

int run(int argc, char** argv) {
  CLI::App app{"Writes a GGUF model of true shape with random weights and fewer layers.", "synth"};
  std::string spec, out, mix = "q4_k_m";
  uint64_t seed = 1;
  app.add_option("shape", spec, "shape and layers: q35-122b:4, q3-30b:6")->required();
  app.add_option("-o,--output", out, "file to write")->required();
  app.add_option("--mix", mix, "types by role")->check(CLI::IsMember({"q4_k_m", "q8_0"}))->capture_default_str();
  app.add_option("--seed", seed, "of the random weights")->capture_default_str();
  app.footer("Example:\n  synth q3-30b:6 -o q3-30b-6.gguf && tps q3-30b-6.gguf");
  CLI11_PARSE(app, argc, argv);

  const auto shape = parse(spec);
  if (!shape) {
    fmt::print(stderr, "synth: {}\n", shape.error().message);
    return 2;
  }
  const Synth synth(*shape->first, shape->second, mix, seed);
  if (const auto written = synth.write(out); !written) {
    fmt::print(stderr, "synth: {}\n", written.error().message);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  return kvasir::run(argc, argv);
}
