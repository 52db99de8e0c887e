// The F32 tiny models of tests/data/tinymoe against a double-precision program: every sequence, every cut of it.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/engine/models.h"

namespace kvasir::testing {
namespace {

constexpr const char* kModels[] = {"qwen3moe", "qwen35moe"};

std::string model_path(const std::string& name) {
  return data_path("tinymoe/" + name + ".gguf");
}

// Top values, probabilities and, where given, all logits of the last position.
void hold_last(const Json& golden, const float* logits, int64_t n_vocab) {
  double sum = 0;
  const double most = double(logits[arg_max(logits, n_vocab)]);
  for (int64_t i = 0; i < n_vocab; ++i) sum += std::exp(double(logits[i]) - most);
  for (const auto& [id, value, probability] : golden["top"].get<std::vector<std::tuple<int32_t, double, double>>>()) {
    REQUIRE(std::fabs(double(logits[id]) - value) <= 1e-3);
    REQUIRE(std::fabs(std::exp(double(logits[id]) - most) / sum - probability) <= 1e-3);
  }
  if (!golden.contains("logits")) return;
  for (int64_t i = 0; i < n_vocab; ++i)
    REQUIRE(std::fabs(double(logits[i]) - golden["logits"][size_t(i)].get<double>()) <= 1e-3);
}

// The last token's experts in each layer. trace rows lie by layer.
void hold_routing(const Json& golden, const Choices& choices, size_t n_rows) {
  for (const auto& [layer, ids, weights] :
       golden["routed_last"].get<std::vector<std::tuple<size_t, std::vector<int32_t>, std::vector<double>>>>()) {
    const size_t at = layer * n_rows + n_rows - 1;
    REQUIRE(choices.experts[at] == ids);
    for (size_t j = 0; j < weights.size(); ++j) REQUIRE(std::fabs(double(choices.weights[at][j]) - weights[j]) <= 1e-4);
  }
}

}  // namespace

TEST_CASE("tinymoe: logits, experts and greedy tokens are those of double precision") {
  for (const std::string name : kModels) {
    TestModel model(model_path(name));
    const Json golden = read_json(data_path("tinymoe/" + name + ".golden.json"));
    const int64_t n_vocab = model.n_vocab();
    for (const auto& [key, sequence] : golden["sequences"].items()) {
      INFO(name << ", sequence " << key);
      const auto tokens = ids_of(sequence["tokens"]), greedy = ids_of(sequence["greedy"]);
      Choices choices;
      choices.listen(*model);
      const auto state = model.sequence();
      auto logits = model.all_logits(*state, tokens);
      model->set_moe_trace({});
      hold_last(sequence, logits.data() + logits.size() - n_vocab, n_vocab);
      hold_routing(sequence, choices, tokens.size());
      for (const int32_t expected : greedy) {
        REQUIRE(arg_max(logits.data() + logits.size() - n_vocab, n_vocab) == expected);
        logits = model.all_logits(*state, {expected});
      }
    }
  }
}

TEST_CASE("tinymoe: every cut of a sequence into calls gives the same bytes at every token") {
  for (const std::string name : kModels) {
    TestModel model(model_path(name));
    const Json golden = read_json(data_path("tinymoe/" + name + ".golden.json"));
    for (const auto& [key, sequence] : golden["sequences"].items()) {
      const auto tokens = ids_of(sequence["tokens"]);
      const auto whole = model.all_logits(tokens);
      for (int64_t chunk = 1; chunk < int64_t(tokens.size()); ++chunk) {
        INFO(name << ", sequence " << key << ", chunks of " << chunk);
        REQUIRE(model.all_logits(tokens, chunk) == whole);
      }
    }
  }
}

// HY-01: nothing of an earlier request is left in a cleared sequence.
TEST_CASE("sequence: the logits of B are the same alone, after A, after a cut-off A, and beside A") {
  for (const std::string name : kModels) {
    TestModel model(model_path(name));
    const Json golden = read_json(data_path("tinymoe/" + name + ".golden.json"))["sequences"];
    const auto a = ids_of(golden["twelve"]["tokens"]), b = ids_of(golden["five"]["tokens"]);
    const auto alone = model.all_logits(b);
    const auto slot = model.sequence();
    for (const size_t n_of_a : {a.size(), size_t(3), size_t(1)}) {
      INFO(name << ", after " << n_of_a << " tokens of A");
      model.all_logits(*slot, {a.begin(), a.begin() + int64_t(n_of_a)});
      REQUIRE(slot->n_tokens() == int64_t(n_of_a));
      slot->clear();
      REQUIRE(slot->n_tokens() == 0);
      REQUIRE(model.all_logits(*slot, b) == alone);
      slot->clear();
    }
    const auto other = model.sequence();
    std::vector<float> logits((a.size() + b.size()) * size_t(model.n_vocab()));
    using enum SequenceTokens::Logits;
    const SequenceTokens both[] = {{other.get(), a, all}, {slot.get(), b, all}};
    REQUIRE(model->forward(both, logits));
    REQUIRE(std::vector<float>(logits.end() - int64_t(alone.size()), logits.end()) == alone);
  }
}

}  // namespace kvasir::testing
