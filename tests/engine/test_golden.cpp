// The models of shared/tiny against the data of two independent programs (models/kvasir-tiny, tests/data/nano).
#include <catch2/catch.hpp>
#include <cmath>

#include "core/limits.h"
#include "engine/moe.h"
#include "tests/engine/models.h"
#include "tests/engine/npy.h"

namespace kvasir::testing {
namespace {

// Where a model's golden data lie.
std::string golden_path(const std::string& name, const std::string& file) {
  return name == "kvasir-tiny" ? KVASIR_SOURCE_DIR "/models/kvasir-tiny/" + file
                               : data_path("nano/" + name + "/" + file);
}

double largest_difference(const float* a, const float* b, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(double(a[i]) - double(b[i])));
  return most;
}

std::vector<int32_t> joined(const Json& prompt) {
  auto ids = ids_of(prompt["ids"]);
  const auto more = ids_of(prompt["greedy_ids"]);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// Best minus second best.
double gap(const float* logits, int64_t n) {
  const int32_t best = arg_max(logits, n);
  float second = -INFINITY;
  for (int32_t i = 0; i < n; ++i)
    if (i != best) second = std::max(second, logits[i]);
  return double(logits[best]) - double(second);
}

// Logits of every position that the golden data has, the greedy continuation, the choice of experts.
void hold_to_float_golden(const std::string& name) {
  const auto path = f16_model(name);
  if (!path) return;
  TestModel model(*path);
  const Json golden = read_json(golden_path(name, "golden.json"));
  const NpyArray logits = read_npy(golden_path(name, "logits.npy"));
  const int64_t n_vocab = model.n_vocab();
  REQUIRE(logits.shape == std::vector<int64_t>{int64_t(golden["prompts"].size()), n_vocab});
  for (size_t p = 0; p < golden["prompts"].size(); ++p) {
    const Json& prompt = golden["prompts"][p];
    const auto ids = ids_of(prompt["ids"]), greedy = ids_of(prompt["greedy_ids"]);
    INFO(name << ", prompt " << p);
    Choices choices;
    choices.layer = golden["moe_layer"];
    choices.listen(*model);
    const auto found = model.all_logits(joined(prompt));
    model->set_moe_trace({});
    const float* last = found.data() + int64_t(ids.size() - 1) * n_vocab;
    REQUIRE(largest_difference(last, logits.floats.data() + int64_t(p) * n_vocab, n_vocab) <= 1e-3);
    for (const auto& [id, value] : prompt["top20"].get<std::vector<std::pair<int32_t, double>>>())
      REQUIRE(std::fabs(double(last[id]) - value) <= 1e-3);
    for (size_t i = 0; i < greedy.size(); ++i) {
      INFO("greedy token " << i);
      const float* at = last + int64_t(i) * n_vocab;
      REQUIRE(arg_max(at, n_vocab) == greedy[i]);
      REQUIRE(std::fabs(gap(at, n_vocab) - prompt["greedy_gaps"][i].get<double>()) <= 2e-3);  // two logits
    }
    for (size_t t = 0; t < ids.size(); ++t) {
      INFO("token " << t);
      REQUIRE(choices.experts[t] == ids_of(prompt["moe_experts"][t]));
      for (size_t j = 0; j < choices.weights[t].size(); ++j)
        REQUIRE(std::fabs(double(choices.weights[t][j]) - prompt["moe_weights"][t][j].get<double>()) <= 1e-4);
    }
  }
}

// A quantised file, whose activations are quantised too. Its golden data holds for the dequantised weights with float
// activations: that is checked to 1e-3 first, and gives the choices of experts to compare with.
void hold_to_quantised_golden(const std::string& name, const std::string& path, const std::string& tag) {
  TestModel model(path), plain(dequantised(path, tag + "-f32.gguf"));
  const Json golden = read_json(golden_path(name, "golden-" + tag + ".json"));
  const NpyArray logits = read_npy(golden_path(name, "logits-" + tag + ".npy"));
  const int64_t n_vocab = model.n_vocab(), n_layers = model->config().n_layers;
  double difference = 0;
  int64_t n_compared = 0, n_flipped = 0;
  for (size_t p = 0; p < golden["prompts"].size(); ++p) {
    const Json& prompt = golden["prompts"][p];
    const auto ids = ids_of(prompt["ids"]), greedy = ids_of(prompt["greedy_ids"]);
    const auto all = joined(prompt);
    INFO(tag << ", prompt " << p);
    Choices choices, plain_choices;
    choices.listen(*model);
    plain_choices.listen(*plain);
    const auto found = model.all_logits(all), exact = plain.all_logits(all);
    const auto n_prompt = int64_t(ids.size());
    const float* expected = logits.floats.data() + int64_t(p) * n_vocab;
    REQUIRE(largest_difference(exact.data() + (n_prompt - 1) * n_vocab, expected, n_vocab) <= 1e-3);

    // The first position at which some layer chose other experts.
    const auto n_rows = int64_t(all.size());
    int64_t same_until = n_rows;
    for (int64_t l = 0; l < n_layers; ++l)
      for (int64_t t = 0; t < n_rows; ++t) {
        auto a = choices.experts[size_t(l * n_rows + t)], b = plain_choices.experts[size_t(l * n_rows + t)];
        std::ranges::sort(a);
        std::ranges::sort(b);
        if (a != b) same_until = std::min(same_until, t);
      }
    for (size_t i = 0; i < greedy.size(); ++i) {
      const int64_t t = n_prompt - 1 + int64_t(i);
      if (t >= same_until || prompt["greedy_gaps"][i].get<double>() <= 2) continue;
      INFO("greedy token " << i);
      REQUIRE(arg_max(found.data() + t * n_vocab, n_vocab) == greedy[i]);
      ++n_compared;
    }
    n_flipped += same_until < n_prompt;
    for (int64_t v = 0; v < n_vocab; ++v)
      difference += std::fabs(double(found[size_t((n_prompt - 1) * n_vocab + v)]) - double(expected[v]));
  }
  difference /= double(logits.floats.size());
  INFO(tag << ": mean logit difference " << difference << ", " << n_compared << " top-1 compared, " << n_flipped
           << " prompts with another choice of experts");
  CHECK(difference <= 0.2);
  CHECK(n_compared > 0);
}

// The expert block alone: exact input in, routing and outputs compared.
void hold_to_moe_golden(const std::string& name) {
  const auto path = f16_model(name);
  if (!path) return;
  const auto gguf = Gguf::open(*path);
  REQUIRE(gguf);
  ThreadPool pool(2);
  const auto config = ModelConfig::from_gguf(*gguf);
  REQUIRE(config);
  const auto* cpu = select_cpu_backend_from_environment().value();
  const Compute compute{cpu, &backbone_ops(cpu->name), &pool};
  const auto weights = ModelWeights::load(*gguf, *config, pool, {cpu, {}});
  REQUIRE(weights);
  auto block = MoeBlock::create(compute, *config, weights->layers, kMaxBatchRows);
  REQUIRE(block);
  const int64_t layer = read_json(golden_path(name, "golden.json"))["moe_layer"], n = config->n_embd;
  auto arrays = read_npz(golden_path(name, "moe.npz"));
  for (int p = 0; arrays.count(fmt::format("input_{}", p)); ++p) {
    const auto get = [&](const char* what) -> const NpyArray& { return arrays.at(fmt::format("{}_{}", what, p)); };
    const NpyArray& input = get("input");
    const int64_t n_rows = input.shape[0];
    auto acts = ActBuffer::create(n_rows, n);
    REQUIRE(acts);
    acts->shape(n, MoeBlock::input_forms(weights->layers[size_t(layer)].moe));
    for (int64_t i = 0; i < n_rows; ++i) REQUIRE(acts->write(*cpu, i, input.floats.data() + i * n));
    std::vector<float> out(size_t(n_rows * n));
    int n_traces = 0;
    const auto within = [&](const float* found, const float* expected, int64_t row) {
      double scale = 0;
      for (int64_t i = 0; i < n; ++i) scale = std::max(scale, std::fabs(double(expected[row * n + i])));
      return largest_difference(found + row * n, expected + row * n, n) <= 1e-4 * scale;
    };
    const auto done =
        block->forward(layer, acts->rows(0, n_rows), input.floats.data(), out.data(), [&](const MoeTrace& t) {
          ++n_traces;
          const auto n_chosen = size_t(t.n_rows * t.n_used);
          REQUIRE(std::vector<int32_t>(t.experts, t.experts + n_chosen) == get("experts").integers);
          REQUIRE(largest_difference(t.weights, get("weights").floats.data(), int64_t(n_chosen)) <= 1e-5);
          for (int64_t i = 0; i < t.n_rows; ++i) {
            INFO(name << ", prompt " << p << ", token " << i);
            REQUIRE(within(t.routed, get("routed").floats.data(), i));
            REQUIRE(within(t.output, get("output").floats.data(), i));
          }
        });
    REQUIRE(done);
    REQUIRE(n_traces == 1);
  }
}

}  // namespace

TEST_CASE("golden: nano-qwen3_moe in F16 gives the logits, experts and tokens of two independent programs") {
  hold_to_float_golden("nano-qwen3_moe");
}
TEST_CASE("golden: nano-qwen3_5_moe in F16 gives the logits, experts and tokens of two independent programs") {
  hold_to_float_golden("nano-qwen3_5_moe");
}
TEST_CASE("golden: kvasir-tiny in F16 gives the logits, experts and tokens of two independent programs") {
  hold_to_float_golden("kvasir-tiny");
}

TEST_CASE("golden: Q8_0 files give the same best tokens and nearby logits") {
  for (const char* name : {"nano-qwen3_moe", "nano-qwen3_5_moe"})
    hold_to_quantised_golden(name, q8_0_model(name), fmt::format("{}-q8_0", name));
}
TEST_CASE("golden: Q4_K_M files give the same best tokens and nearby logits") {
  for (const std::string name : {"nano-qwen3_moe", "nano-qwen3_5_moe", "kvasir-tiny"})
    hold_to_quantised_golden(name, golden_path(name, name + "-q4_k_m.gguf"), name + "-q4_k_m");
}

TEST_CASE("golden: the expert block alone routes exactly and computes within 1e-4 in F16") {
  for (const char* name : {"nano-qwen3_moe", "nano-qwen3_5_moe", "kvasir-tiny"}) hold_to_moe_golden(name);
}

}  // namespace kvasir::testing
