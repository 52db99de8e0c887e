// The sampler's edge values, its randomness, and what it reports.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "engine/generation.h"
#include "engine/sampler.h"

using namespace kvasir;

namespace {

std::vector<float> bumpy(int n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) x[size_t(i)] = 4.0F * std::sin(float(i * i % 1009));
  return x;
}

Sampler make(const SamplerConfig& c, int64_t n) {
  auto s = Sampler::create(c, n);
  if (!s) FAIL(s.error().message);
  return std::move(*s);
}

std::vector<int32_t> draw(SamplerConfig c, const std::vector<float>& logits, int n) {
  auto s = make(c, int64_t(logits.size()));
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(s.sample(logits, ids)->id);
  return ids;
}

}  // namespace

TEST_CASE("sampler: values out of range are refused by the field's name") {
  const auto refused = [](const SamplerConfig& c, const char* field) {
    const auto s = Sampler::create(c, 100);
    INFO(field);
    REQUIRE_FALSE(s.has_value());
    CHECK(s.error().message.find(field) != std::string::npos);
  };
  refused({.temperature = -1, .logit_bias = {}}, "temperature");
  refused({.temperature = NAN, .logit_bias = {}}, "temperature");
  refused({.top_k = -1, .logit_bias = {}}, "top_k");
  refused({.top_p = 1.01F, .logit_bias = {}}, "top_p");
  refused({.min_p = -0.1F, .logit_bias = {}}, "min_p");
  refused({.repetition_penalty = 0, .logit_bias = {}}, "repetition_penalty");
  refused({.penalty_window = -2, .logit_bias = {}}, "penalty_window");
  refused({.logit_bias = {}, .n_logprobs = 101}, "n_logprobs");
}

TEST_CASE("sampler: the same seed draws the same tokens, another seed others") {
  const auto logits = bumpy(5000);
  const auto a = draw({.temperature = 1, .seed = 1, .logit_bias = {}}, logits, 50);
  CHECK(a == draw({.temperature = 1, .seed = 1, .logit_bias = {}}, logits, 50));
  CHECK(a != draw({.temperature = 1, .seed = 2, .logit_bias = {}}, logits, 50));
}

TEST_CASE("sampler: draws follow the distribution") {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F), -INFINITY};
  std::vector<int> counts(4);
  for (const auto id : draw({.temperature = 1, .seed = 3, .logit_bias = {}}, logits, 8000)) ++counts[size_t(id)];
  // 4 standard deviations of a binomial count.
  CHECK(std::abs(counts[0] - 1000) < 4 * 30);
  CHECK(std::abs(counts[1] - 2000) < 4 * 39);
  CHECK(std::abs(counts[2] - 5000) < 4 * 43);
  CHECK(counts[3] == 0);
}

TEST_CASE("sampler: edge values behave as documented") {
  const auto logits = bumpy(300);
  const auto best = draw({.logit_bias = {}}, logits, 1)[0];
  const auto only_best = [&](SamplerConfig c) {
    for (const auto id : draw(c, logits, 20)) CHECK(id == best);
  };
  only_best({.temperature = 5, .top_k = 1, .logit_bias = {}});
  only_best({.temperature = 5, .top_p = 0, .logit_bias = {}});
  only_best({.temperature = 5, .min_p = 1, .logit_bias = {}});
  only_best({.temperature = 1e-30F, .logit_bias = {}});
  auto huge = make({.temperature = 1e30F, .top_k = int64_t(1) << 62, .logit_bias = {}}, 300);
  const auto flat = huge.distribution(logits, {});
  REQUIRE(flat.has_value());
  for (const auto& c : *flat) CHECK(std::fabs(c.p - 1.0F / 300) < 1e-6F);
}

TEST_CASE("sampler: log-probabilities are the model's own, whatever is penalised") {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F};
  const double z = std::log(std::exp(0.0) + std::exp(1.0) + std::exp(2.0));
  auto s = make({.temperature = 0, .repetition_penalty = 100, .logit_bias = {{2, -50.0F}}, .n_logprobs = 2}, 3);
  const auto got = s.sample(logits, std::vector<int32_t>{2});
  REQUIRE(got.has_value());
  CHECK(got->id == 1);
  CHECK(std::fabs(double(got->logprob) - (1.0 - z)) < 1e-5);
  REQUIRE(got->top.size() == 2);
  CHECK(got->top[0].id == 2);
  CHECK(std::fabs(double(got->top[0].logprob) - (2.0 - z)) < 1e-5);
  CHECK(got->top[1].id == 1);
}

TEST_CASE("stop strings: text is cut before the first one, wherever the pieces end") {
  const std::string text = "one two END three";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    for (size_t second = cut; second <= text.size(); ++second) {
      StopStrings stop({"three", "END"});
      std::string shown = stop.push(text.substr(0, cut));
      shown += stop.push(text.substr(cut, second - cut));
      REQUIRE(std::string("one two ").starts_with(shown));
      shown += stop.push(text.substr(second));
      shown += stop.finish();
      REQUIRE(shown == "one two ");
      REQUIRE(stop.stopped());
    }
}

TEST_CASE("stop strings: the one that is complete first ends the text, wherever the pieces end") {
  const std::string text = "xabcabd";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StopStrings stop({"abcabd", "bc", "c"});
    std::string shown = stop.push(text.substr(0, cut));
    shown += stop.push(text.substr(cut));
    shown += stop.finish();
    REQUIRE(shown == "xa");
    REQUIRE(stop.stopped());
  }
}

TEST_CASE("stop strings: what only looked like one is shown in the end") {
  StopStrings stop({"</s>"});
  CHECK(stop.push("a<") == "a");
  CHECK(stop.push("/") == "");
  CHECK(stop.push("b</") == "</b");
  CHECK(stop.finish() == "</");
  CHECK_FALSE(stop.stopped());
}
