// Chooses the next token from logits: penalties, bias, filters, temperature, in one documented order.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"

namespace kvasir {

// Order: logit_bias, repetition, presence and frequency penalties, top_k, top_p, min_p (these three on the
// untempered distribution), then temperature. Neutral values switch a step off.
struct SamplerConfig {
  float temperature = 0.0F;         // 0: greedy (arg max, lowest id on ties, filters and seed without effect); >= 0
  int64_t top_k = 0;                // 0 or >= n_vocab: off
  float top_p = 1.0F;               // in [0, 1]; 1: off; 0 keeps the best token
  float min_p = 0.0F;               // in [0, 1]; 0: off; keeps tokens with p >= min_p * p_max
  float repetition_penalty = 1.0F;  // > 0; 1: off; once per distinct token of the window
  float presence_penalty = 0.0F;    // 0: off; once per distinct token of the window
  float frequency_penalty = 0.0F;   // 0: off; per occurrence in the window
  int64_t penalty_window = 64;      // last tokens (prompt included) that penalties look at; 0: none, -1: all
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  // (id, added to the logit); -inf bans
  int32_t n_logprobs = 0;  // how many of the most likely tokens to report with each choice; <= 100
};

struct TokenLogprob {
  int32_t id;
  float logprob;  // of the model's own distribution: before bias, penalties, filters and temperature
};

struct Sampled {
  int32_t id = 0;
  float logprob = 0;              // as in TokenLogprob
  std::vector<TokenLogprob> top;  // n_logprobs entries, best first
};

// A token that may be drawn, with its adjusted logit and its share of the distribution.
struct Candidate {
  int32_t id;
  float logit;  // after bias and penalties
  float p;      // after filters and temperature; sums to 1
};

// Not thread-safe: one per sequence. Allocates only while its buffers grow to the first choices' needs.
class Sampler {
 public:
  // Fails with invalid_argument, naming the field, its value and what is allowed (also a bias id outside [0, n_vocab)).
  static Expected<Sampler> create(SamplerConfig config, int64_t n_vocab);

  // history: all tokens of the sequence so far, prompt included; ids outside [0, n_vocab) are passed over. logits
  // [n_vocab] are not changed. Fails with numeric if a logit is NaN or +inf, or if all are -inf.
  Expected<Sampled> sample(std::span<const float> logits, std::span<const int32_t> history);

  // What sample draws from, without drawing: one candidate of p = 1 when greedy. Valid until the next call. Best first
  // where top_k or top_p is on, by id otherwise. Errors as sample's.
  Expected<std::span<const Candidate>> distribution(std::span<const float> logits, std::span<const int32_t> history);

 private:
  Sampler(SamplerConfig config, int64_t n_vocab);
  std::span<const float> adjust(std::span<const float> logits, std::span<const int32_t> history);
  void apply_penalties(std::span<const int32_t> history);
  void choose_candidates(std::span<const float> logits, float max);
  void choose_by_mass(std::span<const float> logits, float max);
  void weigh_candidates(float max);
  double random();

  SamplerConfig config_;
  int64_t n_vocab_;
  uint64_t random_state_;
  std::vector<float> adjusted_;  // [n_vocab] where bias or penalties are on
  std::vector<int32_t> counts_;  // [n_vocab] where penalties are on: occurrences in the window; 0 between calls
  std::vector<Candidate> candidates_;
};

}  // namespace kvasir
