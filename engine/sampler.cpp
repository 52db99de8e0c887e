// The steps of sampling in their documented order. Every filter keeps a beginning of the tokens sorted by falling
// logit (ties by rising id), so that a step only ever has to find how many tokens stay.
#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/log_sum_exp.h"

namespace kvasir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr int32_t kMaxLogprobs = 100;

// A total order: the same tokens in the same order on every machine.
bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The k best of logits into out, best first: a heap of k with its worst on top, which most logits do not even enter.
void best_of(std::span<const float> logits, int64_t k, std::vector<Candidate>& out) {
  out.clear();
  for (int32_t id = 0; id < int32_t(logits.size()); ++id) {
    const Candidate c{id, logits[id], 0.0F};
    if (int64_t(out.size()) < k) {
      out.push_back(c);
      if (int64_t(out.size()) == k) std::make_heap(out.begin(), out.end(), better);
    } else if (c.logit > out.front().logit) {  // an equal logit has a higher id and loses
      std::pop_heap(out.begin(), out.end(), better);
      out.back() = c;
      std::push_heap(out.begin(), out.end(), better);
    }
  }
  std::sort(out.begin(), out.end(), better);
}

Expected<void> check_range(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::invalid_argument, "{} is {}; it must be between {} and {}", field, value, low, high);
}

Expected<void> check(const SamplerConfig& c, int64_t n_vocab) {
  const double any = double(kLargest);
  KV_TRY_VOID(check_range("temperature", double(c.temperature), 0, any));
  KV_TRY_VOID(check_range("top_k", double(c.top_k), 0, 9e18));
  KV_TRY_VOID(check_range("top_p", double(c.top_p), 0, 1));
  KV_TRY_VOID(check_range("min_p", double(c.min_p), 0, 1));
  KV_TRY_VOID(check_range("presence_penalty", double(c.presence_penalty), -any, any));
  KV_TRY_VOID(check_range("frequency_penalty", double(c.frequency_penalty), -any, any));
  KV_TRY_VOID(check_range("penalty_window", double(c.penalty_window), -1, 9e18));
  KV_TRY_VOID(check_range("n_logprobs", c.n_logprobs, 0, kMaxLogprobs));
  if (!(c.repetition_penalty > 0.0F && c.repetition_penalty < kInf))
    return fail(ErrorCode::invalid_argument, "repetition_penalty is {}; it must be above 0 and finite (1: off)",
                c.repetition_penalty);
  for (const auto& [id, bias] : c.logit_bias) {
    if (id < 0 || id >= n_vocab)
      return fail(ErrorCode::invalid_argument, "logit_bias names token {}; the vocabulary has ids 0 to {}", id,
                  n_vocab - 1);
    if (std::isnan(bias) || bias == kInf)
      return fail(ErrorCode::invalid_argument, "logit_bias of token {} is {}; it must be finite, or -inf to ban it", id,
                  bias);
  }
  return {};
}

// The token at which the running sum of p passes u in [0, 1); what rounding leaves beyond the sum belongs to the last
// token that has any share.
int32_t draw(std::span<const Candidate> candidates, double u) {
  int32_t id = candidates.front().id;
  for (const auto& c : candidates) {
    if (c.p == 0.0F) continue;
    id = c.id;
    u -= double(c.p);
    if (u < 0) break;
  }
  return id;
}

// Cuts candidates, sorted, after the first ones that together reach `mass` (of the sum of exp(logit - max)); one stays.
void keep_mass(std::vector<Candidate>& candidates, double mass, float max) {
  double sum = 0;
  size_t n = 0;
  while (n < candidates.size() && (n == 0 || sum < mass)) sum += double(exp_below_zero(candidates[n++].logit - max));
  candidates.resize(n);
}

// Keeps -inf (banned), brings what has left the range of f32 back to its edge.
float to_logit(double x) {
  if (x == -double(kInf)) return -kInf;
  return float(std::clamp(x, -double(kLargest), double(kLargest)));
}

}  // namespace

Expected<Sampler> Sampler::create(SamplerConfig config, int64_t n_vocab) {
  KV_CHECK(n_vocab > 0 && n_vocab <= std::numeric_limits<int32_t>::max(), "a vocabulary has 1 to 2^31 - 1 tokens");
  KV_TRY_VOID(check(config, n_vocab));
  return Sampler(std::move(config), n_vocab);
}

Sampler::Sampler(SamplerConfig config, int64_t n_vocab)
    : config_(std::move(config)), n_vocab_(n_vocab), random_state_(config_.seed) {
  if (config_.top_k >= n_vocab_) config_.top_k = 0;
  const bool penalties =
      config_.penalty_window != 0 &&
      (config_.repetition_penalty != 1.0F || config_.presence_penalty != 0.0F || config_.frequency_penalty != 0.0F);
  if (penalties) counts_.resize(size_t(n_vocab_));
  if (penalties || !config_.logit_bias.empty()) adjusted_.resize(size_t(n_vocab_));
}

// SplitMix64 (Steele, Lea, Flood 2014): one word of state, so that a seed is a state. Uniform in [0, 1).
double Sampler::random() {
  uint64_t z = random_state_ += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void Sampler::apply_penalties(std::span<const int32_t> history) {
  const int64_t window = config_.penalty_window;
  if (window >= 0 && window < int64_t(history.size())) history = history.last(size_t(window));
  const auto known = [this](int32_t id) { return id >= 0 && id < n_vocab_; };
  for (const int32_t id : history)
    if (known(id)) ++counts_[id];
  for (const int32_t id : history) {
    if (!known(id) || counts_[id] == 0) continue;
    double x = double(adjusted_[id]);
    const double factor = double(config_.repetition_penalty);
    x = x > 0 ? x / factor : x * factor;
    x -= double(config_.presence_penalty) + double(config_.frequency_penalty) * counts_[id];
    adjusted_[id] = to_logit(x);
    counts_[id] = 0;
  }
}

// The logits after bias and penalties; the model's own where both are off.
std::span<const float> Sampler::adjust(std::span<const float> logits, std::span<const int32_t> history) {
  if (adjusted_.empty()) return logits;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [id, bias] : config_.logit_bias) adjusted_[id] = to_logit(double(adjusted_[id]) + double(bias));
  if (!counts_.empty()) apply_penalties(history);
  return adjusted_;
}

// The tokens that may belong to the likeliest ones with top_p of the mass, sorted: a histogram over the distance from
// the best says how deep to look, so that the tail is never sorted.
void Sampler::choose_by_mass(std::span<const float> logits, float max) {
  constexpr int kBuckets = 512;
  constexpr float kPerUnit = 8.0F;  // a bucket is 1/8 wide; the last holds all beyond 64, which is a mass of e^-64
  const auto bucket = [max](float x) {
    return x <= max - 64.0F ? kBuckets - 1 : std::min(kBuckets - 1, int((max - x) * kPerUnit));
  };
  std::array<double, kBuckets> mass{};
  double total = 0;
  for (const float x : logits) {
    const double e = double(exp_below_zero(x - max));
    mass[bucket(x)] += e;
    total += e;
  }
  int last = 0;
  for (double sum = mass[0]; last < kBuckets - 1 && sum < double(config_.top_p) * total; sum += mass[++last]) {
  }
  candidates_.clear();
  for (int32_t id = 0; id < int32_t(n_vocab_); ++id)
    if (logits[id] > -kInf && bucket(logits[id]) <= last) candidates_.push_back({id, logits[id], 0.0F});
  std::sort(candidates_.begin(), candidates_.end(), better);
  keep_mass(candidates_, double(config_.top_p) * total, max);
}

// Fills candidates_ with what top_k, top_p and min_p leave.
void Sampler::choose_candidates(std::span<const float> logits, float max) {
  if (config_.top_k > 0) {
    best_of(logits, config_.top_k, candidates_);
    while (candidates_.back().logit == -kInf) candidates_.pop_back();
    if (config_.top_p < 1.0F) {
      double total = 0;
      for (const auto& c : candidates_) total += double(exp_below_zero(c.logit - max));
      keep_mass(candidates_, double(config_.top_p) * total, max);
    }
  } else if (config_.top_p < 1.0F) {
    choose_by_mass(logits, max);
  } else {
    candidates_.clear();
    for (int32_t id = 0; id < int32_t(n_vocab_); ++id)
      if (logits[id] > -kInf) candidates_.push_back({id, logits[id], 0.0F});
  }
  if (config_.min_p > 0.0F)
    std::erase_if(candidates_,
                  [&](const Candidate& c) { return std::exp(double(c.logit) - double(max)) < double(config_.min_p); });
}

// Temperature, then the softmax over the candidates.
void Sampler::weigh_candidates(float max) {
  double total = 0;
  for (auto& c : candidates_) {
    c.p = exp_below_zero((c.logit - max) / config_.temperature);
    total += double(c.p);
  }
  for (auto& c : candidates_) c.p = float(double(c.p) / total);
}

Expected<std::span<const Candidate>> Sampler::distribution(std::span<const float> logits,
                                                           std::span<const int32_t> history) {
  KV_CHECK(int64_t(logits.size()) == n_vocab_, "the sampler was made for another vocabulary");
  if (!finite_max(logits))
    return fail(ErrorCode::numeric, "the logits hold a NaN or +inf, or nothing but -inf; no token can be chosen");
  const auto adjusted = adjust(logits, history);
  const auto max = finite_max(adjusted);
  if (!max) return fail(ErrorCode::numeric, "logit_bias bans every token that the model allows; allow at least one");
  if (config_.temperature == 0.0F) {
    const auto best = std::find(adjusted.begin(), adjusted.end(), *max);
    candidates_.assign(1, {int32_t(best - adjusted.begin()), *max, 1.0F});
  } else {
    choose_candidates(adjusted, *max);
    weigh_candidates(*max);
  }
  return std::span<const Candidate>(candidates_);
}

Expected<Sampled> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  KV_TRY(const auto candidates, distribution(logits, history));
  Sampled s{candidates.front().id, 0.0F, {}};
  if (config_.temperature > 0.0F) s.id = draw(candidates, random());
  const double normaliser = log_sum_exp(logits, *finite_max(logits));
  s.logprob = float(double(logits[s.id]) - normaliser);
  if (config_.n_logprobs > 0) {
    best_of(logits, std::min<int64_t>(config_.n_logprobs, n_vocab_), candidates_);
    for (const auto& c : candidates_) s.top.push_back({c.id, float(double(c.logit) - normaliser)});
  }
  return s;
}

}  // namespace kvasir
