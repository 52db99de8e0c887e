// One setting, several repeats: read bandwidth, prefill, decode, read bandwidth.
#include "bench/tps/measure.h"

#include <algorithm>
#include <bit>
#include <set>

#include "core/clock.h"

namespace kvasir {
namespace {

// FNV-1a over 32-bit words: https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
uint64_t hash_floats(uint64_t hash, std::span<const float> values) {
  for (const float v : values) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3;
  return hash;
}

class Run {
 public:
  Run(Model& model, const Setting& setting)
      : model_(model), s_(setting), n_vocab_(model.config().n_vocab), logits_(size_t(s_.n_sequences * n_vocab_)) {}

  Expected<void> start() {
    for (int64_t i = 0; i < s_.n_sequences; ++i) {
      KV_TRY(auto sequence, model_.new_sequence());
      sequences_.push_back(std::move(sequence));
    }
    next_.resize(size_t(s_.n_sequences));
    return {};
  }

  // Tokens per second over all sequences.
  Expected<double> prefill() {
    std::vector<std::vector<int32_t>> prompts(sequences_.size());
    std::vector<SequenceTokens> batch;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      sequences_[i]->clear();
      for (int64_t t = 0; t < s_.n_prompt; ++t)
        prompts[i].push_back(int32_t((int64_t(i) * 7919 + t * 104729 + 1) % n_vocab_));
      batch.push_back({sequences_[i].get(), prompts[i], SequenceTokens::Logits::last});
    }
    const auto start = Clock::now();
    KV_TRY_VOID(model_.forward(batch, logits_));
    const double rate = double(s_.n_sequences * s_.n_prompt) / seconds_since(start);
    choose();
    return rate;
  }

  // Tokens per second over all sequences.
  Expected<double> decode() {
    const auto start = Clock::now();
    for (int64_t step = 0; step < s_.n_decode; ++step) KV_TRY_VOID(this->step());
    return double(s_.n_sequences * s_.n_decode) / seconds_since(start);
  }

  // One decode step that counts which experts it reads.
  Expected<double> count_bytes() {
    uint64_t n_chosen = 0;
    model_.set_moe_trace(
        [&](const MoeTrace& t) { n_chosen += std::set<int32_t>(t.experts, t.experts + t.n_rows * t.n_used).size(); });
    const auto stepped = step();
    model_.set_moe_trace({});
    KV_TRY_VOID(stepped);
    const auto bytes = model_.bytes_per_token();
    const auto& c = model_.config();
    const double per_expert = double(bytes.experts) / double(c.n_layers * c.n_experts_used);
    return double(bytes.total() - bytes.experts) + per_expert * double(n_chosen);
  }

  // Of the last logits, which every token before them has shaped; not of all, because hashing takes time of its own.
  uint64_t hash() const { return hash_floats(0xcbf29ce484222325, logits_); }

 private:
  Expected<void> step() {
    std::vector<SequenceTokens> batch;
    for (size_t i = 0; i < sequences_.size(); ++i)
      batch.push_back({sequences_[i].get(), std::span(&next_[i], 1), SequenceTokens::Logits::last});
    KV_TRY_VOID(model_.forward(batch, logits_));
    choose();
    return {};
  }
  void choose() {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const auto* row = logits_.data() + int64_t(i) * n_vocab_;
      next_[i] = int32_t(std::max_element(row, row + n_vocab_) - row);
    }
  }

  Model& model_;
  Setting s_;
  int64_t n_vocab_;
  std::vector<float> logits_;
  std::vector<int32_t> next_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

}  // namespace

Spread spread_of(std::vector<double> values) {
  KV_CHECK(!values.empty(), "a spread of nothing");
  std::ranges::sort(values);
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

Expected<Measurement> measure(Model& model, ThreadPool& pool, const ReadBandwidth& bandwidth, const Setting& setting) {
  Measurement m;
  m.setting = setting;
  std::vector<double> prefill, decode, read, bytes, share;
  for (int i = 0; i < setting.n_repeats; ++i) {
    Run run(model, setting);
    KV_TRY_VOID(run.start());
    KV_TRY(const double prefill_rate, run.prefill());
    KV_TRY(m.bytes_per_step, run.count_bytes());
    const double before = bandwidth.measure(pool);
    KV_TRY(const double decode_rate, run.decode());
    const double reading = (before + bandwidth.measure(pool)) / 2;
    prefill.push_back(prefill_rate);
    decode.push_back(decode_rate);
    read.push_back(reading);
    bytes.push_back(decode_rate / double(setting.n_sequences) * m.bytes_per_step);
    share.push_back(bytes.back() / reading);
    m.logits_hash = run.hash();
  }
  m.prefill_tok_s = spread_of(prefill);
  m.decode_tok_s = spread_of(decode);
  m.read_bytes_s = spread_of(read);
  m.decode_bytes_s = spread_of(bytes);
  m.decode_share = spread_of(share);
  return m;
}

}  // namespace kvasir
