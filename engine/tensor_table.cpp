// GGUF tensor names: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "Standardized tensor names"
#include "engine/tensor_table.h"

namespace kvasir {
namespace {

// Visits the tensors of one layer: names get their "blk.N." here.
class LayerVisitor {
 public:
  LayerVisitor(const ModelConfig& config, int64_t layer, TensorVisitor& visitor)
      : c_(config), prefix_(fmt::format("blk.{}.", layer)), visitor_(visitor) {}

  void attention(AttentionWeights& w) {
    const int64_t inner = c_.n_heads * c_.head_dim, kv = c_.n_kv_heads * c_.head_dim;
    matrix("attn_q.weight", c_.gated_attention ? 2 * inner : inner, c_.n_embd, w.q);
    matrix("attn_k.weight", kv, c_.n_embd, w.k);
    matrix("attn_v.weight", kv, c_.n_embd, w.v);
    matrix("attn_output.weight", c_.n_embd, inner, w.output);
    vector("attn_q_norm.weight", c_.head_dim, w.q_norm);
    vector("attn_k_norm.weight", c_.head_dim, w.k_norm);
  }

  void delta_net(DeltaNetWeights& w) {
    const int64_t inner = c_.n_value_heads * c_.state_dim;
    const int64_t channels = 2 * c_.n_key_heads * c_.state_dim + inner;
    matrix("attn_qkv.weight", channels, c_.n_embd, w.qkv);
    matrix("attn_gate.weight", inner, c_.n_embd, w.gate);
    matrix("ssm_alpha.weight", c_.n_value_heads, c_.n_embd, w.alpha);
    matrix("ssm_beta.weight", c_.n_value_heads, c_.n_embd, w.beta);
    matrix("ssm_out.weight", c_.n_embd, inner, w.output);
    visitor_.floats(prefix_ + "ssm_conv1d.weight", channels * c_.conv_kernel, c_.conv_kernel, w.conv);
    vector("ssm_dt.bias", c_.n_value_heads, w.dt);
    vector("ssm_a", c_.n_value_heads, w.a);
    vector("ssm_norm.weight", c_.state_dim, w.norm);
  }

  void moe(MoeWeights& w) {
    matrix("ffn_gate_inp.weight", c_.n_experts, c_.n_embd, w.router);
    stack("ffn_gate_exps.weight", c_.n_ff, c_.n_embd, w.gate);
    stack("ffn_up_exps.weight", c_.n_ff, c_.n_embd, w.up);
    stack("ffn_down_exps.weight", c_.n_embd, c_.n_ff, w.down);
    if (!c_.n_ff_shared) return;
    matrix("ffn_gate_inp_shexp.weight", 1, c_.n_embd, w.shared_router);
    matrix("ffn_gate_shexp.weight", c_.n_ff_shared, c_.n_embd, w.shared_gate);
    matrix("ffn_up_shexp.weight", c_.n_ff_shared, c_.n_embd, w.shared_up);
    matrix("ffn_down_shexp.weight", c_.n_embd, c_.n_ff_shared, w.shared_down);
  }

  void vector(const char* name, int64_t n, std::vector<float>& to) { visitor_.floats(prefix_ + name, n, n, to); }

 private:
  void matrix(const char* name, int64_t n_rows, int64_t n_cols, Matrix& to) {
    visitor_.matrix(prefix_ + name, n_rows, n_cols, 1, to);
  }
  void stack(const char* name, int64_t n_rows, int64_t n_cols, Matrix& to) {
    visitor_.matrix(prefix_ + name, n_rows, n_cols, c_.n_experts, to);
  }

  const ModelConfig& c_;
  std::string prefix_;
  TensorVisitor& visitor_;
};

}  // namespace

void visit_tensors(const ModelConfig& c, bool tied, ModelWeights& weights, TensorVisitor& visitor) {
  visitor.mapped("token_embd.weight", c.n_vocab, c.n_embd, weights.embedding);
  const char* moe_norm = c.architecture == Architecture::qwen35moe ? "post_attention_norm.weight" : "ffn_norm.weight";
  for (int64_t i = 0; i < c.n_layers; ++i) {
    LayerWeights& w = weights.layers[size_t(i)];
    LayerVisitor layer(c, i, visitor);
    layer.vector("attn_norm.weight", c.n_embd, w.attention_norm);
    if (c.layers[size_t(i)] == LayerKind::full_attention)
      layer.attention(w.attention);
    else
      layer.delta_net(w.delta_net);
    layer.vector(moe_norm, c.n_embd, w.moe_norm);
    layer.moe(w.moe);
  }
  visitor.floats("output_norm.weight", c.n_embd, c.n_embd, weights.output_norm);
  visitor.matrix(tied ? "token_embd.weight" : "output.weight", c.n_vocab, c.n_embd, 1, weights.head);
}

}  // namespace kvasir
