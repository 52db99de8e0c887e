// The sampling faults that other engines had (cases SA-01 to SA-10), as vectors that an independent program made.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/sampler.h"
#include "tests/engine/cases.h"

namespace kvasir::testing {
namespace {

constexpr float kInf = INFINITY;

float number(const Json& v) {
  if (!v.is_string()) return v.get<float>();
  const auto s = v.get<std::string>();
  return s == "nan" ? NAN : s == "inf" ? kInf : -kInf;
}

std::vector<float> numbers(const Json& list) {
  std::vector<float> out;
  for (const auto& v : list) out.push_back(number(v));
  return out;
}

Sampler make(const SamplerConfig& config, size_t n_vocab) {
  auto s = Sampler::create(config, int64_t(n_vocab));
  if (!s) FAIL(s.error().message);
  return std::move(*s);
}

void check_distribution(const SamplerConfig& config, const Json& entry) {
  const auto logits = numbers(entry["logits"]);
  auto sampler = make(config, logits.size());
  const auto got = sampler.distribution(logits, {});
  REQUIRE(got.has_value());
  std::map<int32_t, float> expected;
  for (size_t i = 0; i < entry["keep"].size(); ++i)
    expected[entry["keep"][i].get<int32_t>()] = entry["probs"][i].get<float>();
  REQUIRE(got->size() == expected.size());
  for (const auto& c : *got) {
    REQUIRE(expected.count(c.id) == 1);
    CHECK(std::fabs(c.p - expected[c.id]) < 2e-5F);
  }
}

}  // namespace

TEST_CASE("sampler: temperature 0 takes the best, the lowest id of equals, whatever seed and filters say (SA-01)") {
  const auto entries = read_case("SA-01", "greedy.json");
  REQUIRE(entries.size() > 10);
  for (const auto& entry : entries) {
    const auto logits = numbers(entry["logits"]);
    for (const uint64_t seed : {0, 1, 99}) {
      auto sampler = make({.top_k = 3, .top_p = 0.1F, .min_p = 0.5F, .seed = seed, .logit_bias = {}}, logits.size());
      CHECK(sampler.sample(logits, {})->id == entry["token"].get<int32_t>());
    }
  }
}

TEST_CASE("sampler: top_k 0 and top_k beyond the vocabulary are off (SA-02)") {
  for (const auto& entry : read_case("SA-02", "top_k.json"))
    check_distribution({.temperature = entry["temperature"], .top_k = entry["top_k"], .logit_bias = {}}, entry);
}

TEST_CASE("sampler: logits that are not finite fail, they are never a token (SA-03)") {
  for (const auto& entry : read_case("SA-03", "nonfinite.json")) {
    const auto logits = numbers(entry["logits"]);
    const auto must = entry["must"].get<std::string>();
    for (const float temperature : {0.0F, 1.0F}) {
      auto sampler = make({.temperature = temperature, .seed = 5, .logit_bias = {}}, logits.size());
      const auto got = sampler.sample(logits, {});
      INFO(must);
      if (must.starts_with("fail")) {
        REQUIRE_FALSE(got.has_value());
        CHECK(got.error().code == ErrorCode::numeric);
      } else {
        REQUIRE(got.has_value());
        CHECK_FALSE(std::isnan(got->logprob));
        if (must.starts_with("pick 7")) CHECK(got->id == 7);
      }
    }
  }
}

TEST_CASE("sampler: filters first, temperature last, as documented (SA-04)") {
  int n = 0;
  for (const auto& entry : read_case("SA-04", "order.json")) {
    if (entry["order"] != "temp_last") continue;
    ++n;
    check_distribution({.temperature = entry["temperature"],
                        .top_k = entry["top_k"],
                        .top_p = entry["top_p"],
                        .min_p = entry["min_p"],
                        .logit_bias = {}},
                       entry);
  }
  CHECK(n >= 6);
}

TEST_CASE("sampler: penalties look at the last tokens, once per token or by count (SA-05)") {
  for (const auto& entry : read_case("SA-05", "penalties.json")) {
    const auto logits = numbers(entry["logits"]), expected = numbers(entry["result"]);
    const auto history = entry["history"].get<std::vector<int32_t>>();
    auto sampler = make({.temperature = 1,
                         .repetition_penalty = entry["repeat_penalty"],
                         .presence_penalty = entry["presence_penalty"],
                         .frequency_penalty = entry["frequency_penalty"],
                         .penalty_window = entry["window"],
                         .logit_bias = {}},
                        logits.size());
    const auto got = sampler.distribution(logits, history);
    REQUIRE(got.has_value());
    REQUIRE(got->size() == logits.size());
    for (const auto& c : *got) CHECK(std::fabs(c.logit - expected[size_t(c.id)]) < 1e-4F);
  }
}

TEST_CASE("sampler: a bias outside the vocabulary is refused with its id (SA-06)") {
  for (const int32_t id : {999'999'999, -1, 10}) {
    const auto s = Sampler::create({.logit_bias = {{id, -100.0F}}}, 10);
    REQUIRE_FALSE(s.has_value());
    CHECK(s.error().code == ErrorCode::invalid_argument);
    CHECK(s.error().message.find(fmt::format("{}", id)) != std::string::npos);
  }
  CHECK_FALSE(Sampler::create({.logit_bias = {{5, NAN}}}, 10).has_value());
  CHECK_FALSE(Sampler::create({.logit_bias = {{5, kInf}}}, 10).has_value());
  auto sampler = make({.logit_bias = {{1, -kInf}}}, 3);
  CHECK(sampler.sample(std::vector{0.0F, 9.0F, 1.0F}, {})->id == 2);
}

TEST_CASE("sampler: penalties count the prompt, and the same request gives the same tokens (SA-10)") {
  const std::vector<float> logits = {1.0F, 1.2F, 1.1F};
  const std::vector<int32_t> history = {1, 1};
  for (int i = 0; i < 2; ++i) {
    auto sampler = make({.repetition_penalty = 1.3F, .logit_bias = {}}, 3);
    CHECK(sampler.sample(logits, history)->id == 2);
    CHECK(sampler.sample(logits, {})->id == 1);  // nothing is left of the call before
  }
}

}  // namespace kvasir::testing
