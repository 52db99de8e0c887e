// Loading, and the forward pass: chunks of rows through the layers.
#include "engine/model.h"

#include <cstring>

#include "core/limits.h"
#include "engine/attention.h"
#include "engine/delta_net.h"
#include "engine/moe.h"
#include "engine/sequence.h"
#include "kernels/dequantize.h"

namespace kvasir {
namespace {

constexpr int64_t kFewRows = 2;           // rows that one thread normalises sooner than several
constexpr int64_t kScanFloats = 1 << 14;  // logits of a task that looks for NaN

// True if none is NaN or infinite: an exponent of all ones.
bool all_finite(const float* x, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    most = std::max(most, bits & 0x7f800000U);
  }
  return most != 0x7f800000U;
}

}  // namespace

struct Model::Impl {
  ModelConfig config;
  Compute compute;
  ModelWeights weights;
  SequenceLayout layout;
  std::function<void(const MoeTrace&)> trace;
  std::unique_ptr<AttentionBlock> attention;
  std::unique_ptr<DeltaNetBlock> delta_net;
  std::unique_ptr<MoeBlock> moe;
  std::unique_ptr<MatmulGroup> head;
  ActBuffer input, mixed;                // a block's normalised rows; its inner rows before the output projection
  Memory hidden, normalised, block_out;  // f32 [kMaxBatchRows][n_embd]: the residual stream, its norm, what to add next
  std::vector<BatchSlice> slices;        // of the current chunk
  std::vector<int32_t> tokens;           // of its rows
  std::vector<int64_t> wanted;           // its rows that ask for logits

  Expected<void> create_blocks();
  Expected<void> check(std::span<const SequenceTokens> batch, size_t n_logits) const;
  Expected<void> check_tokens(const SequenceTokens& entry) const;
  Expected<void> run_chunk(float* logits);
  bool enter(const std::vector<float>& norm, ActForms forms, bool add_block);
  Expected<void> run_layer(int64_t layer);
  Expected<void> run_head(float* logits);
  void add_slice(const SequenceTokens& entry, int64_t begin, int64_t n);
  int64_t n_rows() const { return int64_t(tokens.size()); }
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Expected<std::unique_ptr<Model>> Model::load(const Gguf& gguf, ThreadPool& pool, const LoadOptions& options) {
  KV_CHECK(options.backend, "a model needs a backend");
  auto impl = std::make_unique<Impl>();
  KV_TRY(impl->config, ModelConfig::from_gguf(gguf));
  const ModelConfig& c = impl->config;
  if (options.context < 0 || options.context > kMaxContext)
    return fail(ErrorCode::invalid_argument, "context {}: expected 1 to {}, or 0 for the model's own {}",
                options.context, kMaxContext, c.n_context);
  impl->compute = {options.backend, &backbone_ops(options.backend->name), &pool};
  KV_TRY(impl->weights, ModelWeights::load(gguf, c, pool, {options.backend, options.progress}));
  impl->layout = SequenceLayout::of(c, options.context ? options.context : c.n_context);
  KV_TRY_VOID(impl->create_blocks());
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

Expected<void> Model::Impl::create_blocks() {
  KV_TRY(auto attention_block, AttentionBlock::create(compute, config, kMaxBatchRows));
  attention = std::make_unique<AttentionBlock>(std::move(attention_block));
  if (layout.n_recurrent > 0) {
    KV_TRY(auto delta_block, DeltaNetBlock::create(compute, config, kMaxBatchRows));
    delta_net = std::make_unique<DeltaNetBlock>(std::move(delta_block));
  }
  KV_TRY(auto moe_block, MoeBlock::create(compute, config, weights.layers, kMaxBatchRows));
  moe = std::make_unique<MoeBlock>(std::move(moe_block));
  head = std::make_unique<MatmulGroup>(compute, 1);
  KV_TRY(input, ActBuffer::create(kMaxBatchRows, config.n_embd));
  KV_TRY(mixed, ActBuffer::create(kMaxBatchRows,
                                  std::max(config.n_heads * config.head_dim, config.n_value_heads * config.state_dim)));
  for (Memory* m : {&hidden, &normalised, &block_out}) {
    KV_TRY(*m, Memory::reserve(uint64_t(kMaxBatchRows * config.n_embd) * sizeof(float), Memory::Pages::small,
                               "activations"));
  }
  slices.reserve(size_t(kMaxBatchRows));
  tokens.reserve(size_t(kMaxBatchRows));
  wanted.reserve(size_t(kMaxBatchRows));
  return {};
}

const ModelConfig& Model::config() const {
  return impl_->config;
}

uint64_t Model::packed_bytes() const {
  return impl_->weights.packed.size();
}

void Model::set_moe_trace(std::function<void(const MoeTrace&)> trace) {
  impl_->trace = std::move(trace);
}

WeightBytes Model::bytes_per_token() const {
  const ModelWeights& w = impl_->weights;
  const auto n_used = uint64_t(impl_->config.n_experts_used);
  const auto floats = [](std::initializer_list<const std::vector<float>*> list) {
    uint64_t n = 0;
    for (const auto* v : list) n += v->size() * sizeof(float);
    return n;
  };
  WeightBytes b;
  for (const LayerWeights& l : w.layers) {
    const auto& [a, d, m] = std::tie(l.attention, l.delta_net, l.moe);
    for (const Matrix* x : {&m.gate, &m.up, &m.down}) b.experts += n_used * x->matrix_bytes();
    for (const Matrix* x : {&m.shared_router, &m.shared_gate, &m.shared_up, &m.shared_down})
      b.shared_expert += x->matrix_bytes();
    for (const Matrix* x : {&a.q, &a.k, &a.v, &a.output, &d.qkv, &d.gate, &d.alpha, &d.beta, &d.output})
      b.attention += x->matrix_bytes();
    b.attention += floats({&a.q_norm, &a.k_norm, &d.conv, &d.dt, &d.a, &d.norm});
    b.router += m.router.matrix_bytes();
    b.other += floats({&l.attention_norm, &l.moe_norm});
  }
  b.head = w.head.matrix_bytes();
  b.other += floats({&w.output_norm}) + uint64_t(row_bytes(w.embedding.type, w.embedding.n_cols));
  return b;
}

Expected<std::unique_ptr<Sequence>> Model::new_sequence() {
  const SequenceLayout& layout = impl_->layout;
  auto s = std::make_unique<Sequence::Impl>();
  s->model = impl_.get();
  s->layout = &layout;
  s->recurrent.values.resize(size_t(layout.n_recurrent));
  const uint64_t kv_floats = uint64_t(layout.n_kv) * uint64_t(layout.n_tiles()) * uint64_t(layout.tiles_floats);
  KV_TRY(s->kv, Memory::reserve(kv_floats * sizeof(float), Memory::Pages::small,
                                fmt::format("KV cache of {} positions", layout.capacity)));
  return std::unique_ptr<Sequence>(new Sequence(std::move(s)));
}

Expected<void> Model::Impl::check(std::span<const SequenceTokens> batch, size_t n_logits) const {
  uint64_t n_wanted = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    KV_TRY_VOID(check_tokens(batch[i]));
    for (size_t j = 0; j < i; ++j)
      if (batch[j].sequence == batch[i].sequence)
        return fail(ErrorCode::invalid_argument, "entries {} and {} of the batch are the same sequence", j, i);
    const auto wants = batch[i].logits;
    n_wanted += wants == SequenceTokens::Logits::all ? batch[i].tokens.size() : wants == SequenceTokens::Logits::last;
  }
  if (n_logits < n_wanted * uint64_t(config.n_vocab))
    return fail(ErrorCode::invalid_argument, "room for {} logits, expected {} rows of {}", n_logits, n_wanted,
                config.n_vocab);
  return {};
}

Expected<void> Model::Impl::check_tokens(const SequenceTokens& entry) const {
  if (!entry.sequence || entry.sequence->impl_->model != this)
    return fail(ErrorCode::invalid_argument, "a batch entry has no sequence of this model");
  const Sequence::Impl& s = *entry.sequence->impl_;
  if (s.broken) return fail(ErrorCode::invalid_argument, "a sequence whose last pass failed must be cleared first");
  if (entry.tokens.empty()) return fail(ErrorCode::invalid_argument, "a batch entry has no tokens");
  if (int64_t(entry.tokens.size()) > layout.capacity - s.n_tokens)
    return fail(ErrorCode::limit,
                "{} tokens after {} are more than the context of {}; shorten the prompt or load with a larger context",
                entry.tokens.size(), s.n_tokens, layout.capacity);
  for (size_t i = 0; i < entry.tokens.size(); ++i)
    if (entry.tokens[i] < 0 || entry.tokens[i] >= config.n_vocab)
      return fail(ErrorCode::invalid_argument, "token {} at {}: the vocabulary has {}", entry.tokens[i], i,
                  config.n_vocab);
  return {};
}

Expected<void> Model::forward(std::span<const SequenceTokens> batch, std::span<float> logits) {
  Impl& m = *impl_;
  KV_TRY_VOID(m.check(batch, logits.size()));
  float* next_logits = logits.data();
  const auto run = [&]() -> Expected<void> {
    const auto n = int64_t(m.wanted.size());
    if (auto done = m.run_chunk(next_logits); !done) {
      for (const SequenceTokens& entry : batch) entry.sequence->impl_->broken = true;
      return done;
    }
    next_logits += n * m.config.n_vocab;
    m.slices.clear();
    m.tokens.clear();
    m.wanted.clear();
    return {};
  };
  m.slices.clear();
  m.tokens.clear();
  m.wanted.clear();
  for (const SequenceTokens& entry : batch) {
    const auto n_tokens = int64_t(entry.tokens.size());
    for (int64_t begin = 0; begin < n_tokens;) {
      const int64_t n = std::min(n_tokens - begin, kMaxBatchRows - m.n_rows());
      m.add_slice(entry, begin, n);
      begin += n;
      if (m.n_rows() == kMaxBatchRows) KV_TRY_VOID(run());
    }
  }
  return m.tokens.empty() ? Expected<void>() : run();
}

void Model::Impl::add_slice(const SequenceTokens& entry, int64_t begin, int64_t n) {
  Sequence::Impl* s = entry.sequence->impl_.get();
  // Two slices of one sequence never share a chunk: a chunk is full after the first.
  slices.push_back({s, n_rows(), n, s->n_tokens});
  const auto n_tokens = int64_t(entry.tokens.size());
  for (int64_t i = begin; i < begin + n; ++i) {
    if (entry.logits == SequenceTokens::Logits::all ||
        (entry.logits == SequenceTokens::Logits::last && i + 1 == n_tokens))
      wanted.push_back(n_rows());
    tokens.push_back(entry.tokens[size_t(i)]);
  }
}

Expected<void> Model::Impl::run_chunk(float* logits) {
  const TensorView& e = weights.embedding;
  compute.each(n_rows(), kFewRows, [&](int64_t i) {
    dequantize_row(e.type, e.data + tokens[size_t(i)] * row_bytes(e.type, e.n_cols), e.n_cols,
                   hidden.as<float>() + i * e.n_cols);
  });
  attention->set_positions(slices);
  for (int64_t layer = 0; layer < config.n_layers; ++layer) KV_TRY_VOID(run_layer(layer));
  KV_TRY_VOID(run_head(logits));
  for (const BatchSlice& s : slices) s.sequence->n_tokens += s.n_rows;
  return {};
}

// Adds what the last block gave, normalises, quantises: the input of the next block. False if it is not finite.
bool Model::Impl::enter(const std::vector<float>& norm, ActForms forms, bool add_block) {
  const int64_t n = config.n_embd;
  input.shape(n, forms);
  return compute.all(n_rows(), kFewRows, [&](int64_t i) {
    float *x = hidden.as<float>() + i * n, *y = normalised.as<float>() + i * n;
    if (add_block) compute.ops->add(x, block_out.as<float>() + i * n, n);
    compute.ops->rms_norm(x, norm.data(), n, config.rms_eps, y);
    return input.write(*compute.cpu, i, y);
  });
}

Expected<void> Model::Impl::run_layer(int64_t layer) {
  const LayerWeights& w = weights.layers[size_t(layer)];
  const SequenceLayout::Layer& at = layout.layers[size_t(layer)];
  const bool full = config.layers[size_t(layer)] == LayerKind::full_attention;
  const ActForms forms = full ? AttentionBlock::input_forms(w.attention) : DeltaNetBlock::input_forms(w.delta_net);
  if (!enter(w.attention_norm, forms, layer > 0))
    return fail(ErrorCode::numeric, "layer {}: its input is not finite", layer);
  const ActRows rows = input.rows(0, n_rows());
  float* out = block_out.as<float>();
  if (full ? !attention->forward(w.attention, at, slices, rows, mixed, out)
           : !delta_net->forward(w.delta_net, at, slices, rows, mixed, out))
    return fail(ErrorCode::numeric, "layer {}: {} gives values that are not finite", layer,
                full ? "attention" : "the delta rule");
  if (!enter(w.moe_norm, MoeBlock::input_forms(w.moe), true))
    return fail(ErrorCode::numeric, "layer {}: the input of its experts is not finite", layer);
  return moe->forward(layer, input.rows(0, n_rows()), normalised.as<float>(), out, trace);
}

// Logits of the wanted rows, one after the other.
Expected<void> Model::Impl::run_head(float* logits) {
  const int64_t n = config.n_embd, n_vocab = config.n_vocab;
  const auto n_wanted = int64_t(wanted.size());
  if (n_wanted == 0) return {};
  ActForms forms;
  forms.need(weights.head.act());
  input.shape(n, forms);
  const auto norm_row = [&](int64_t i) {
    const int64_t row = wanted[size_t(i)];
    float *x = hidden.as<float>() + row * n, *y = normalised.as<float>() + row * n;
    compute.ops->add(x, block_out.as<float>() + row * n, n);
    compute.ops->rms_norm(x, weights.output_norm.data(), n, config.rms_eps, y);
    return input.write(*compute.cpu, i, y);
  };
  if (!compute.all(n_wanted, kFewRows, norm_row))
    return fail(ErrorCode::numeric, "the last layer's output is not finite");
  head->add(weights.head.first, input.rows(0, n_wanted), logits, n_vocab);
  head->run();
  const int64_t n_logits = n_wanted * n_vocab, n_pieces = (n_logits + kScanFloats - 1) / kScanFloats;
  const auto scan = [&](int64_t i) {
    return all_finite(logits + i * kScanFloats, std::min(kScanFloats, n_logits - i * kScanFloats));
  };
  if (!compute.all(n_pieces, 2, scan)) return fail(ErrorCode::numeric, "output head: a logit is not finite");
  return {};
}

}  // namespace kvasir
