// The logits of a sequence are the same bytes however they come about: threads, chunks, company, backend.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/engine/models.h"

namespace kvasir::testing {
namespace {

constexpr int64_t kTokens = 600;
// Sanitizers make this 30 times slower and look for other faults: they see every fifth chunk size.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kChunkStep = 5;
#else
constexpr int64_t kChunkStep = 1;
#endif
constexpr const char* kModels[] = {"nano-qwen3_moe", "nano-qwen3_5_moe"};

std::string path_of(const std::string& name) {
  return data_path("nano/" + name + "/" + name + "-q4_k_m.gguf");
}

std::vector<int32_t> tokens_of(int64_t n, int64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 1; i <= n; ++i) tokens.push_back(int32_t((i * 2654435761 + seed * 40503 + 12345) % 509));
  return tokens;
}

TestModel make(const std::string& name, int n_threads, const std::string& backend = {}) {
  return TestModel(path_of(name), {.n_threads = n_threads, .context = 640, .backend = backend});
}

}  // namespace

TEST_CASE("invariance: 1, 2, 3 and 5 threads give the same bytes through 600 tokens") {
  for (const std::string name : kModels) {
    const auto tokens = tokens_of(kTokens, 0);
    const auto expected = make(name, 1).all_logits(tokens);
    for (const int n_threads : {2, 3, 5}) {
      INFO(name << ", " << n_threads << " threads");
      REQUIRE(make(name, n_threads).all_logits(tokens, 77) == expected);
    }
  }
}

TEST_CASE("invariance: prefill by chunks of 1 to 64, 100, 128, 511 and 512 gives the same bytes through 600 tokens") {
  for (const std::string name : kModels) {
    auto model = make(name, 2);
    const auto tokens = tokens_of(kTokens, 1);
    const auto expected = model.all_logits(tokens, 1);
    std::vector<int64_t> chunks{100, 128, 511, 512};
    for (int64_t c = 2; c <= 64; c += kChunkStep) chunks.push_back(c);
    for (const int64_t chunk : chunks) {
      INFO(name << ", chunks of " << chunk);
      REQUIRE(model.all_logits(tokens, chunk) == expected);
    }
  }
}

TEST_CASE("invariance: a sequence alone, with seven others and in any order gives the same bytes") {
  for (const std::string name : kModels) {
    auto model = make(name, 2);
    std::vector<std::vector<int32_t>> tokens;
    std::vector<std::vector<float>> alone;
    std::vector<std::unique_ptr<Sequence>> sequences;
    // Lengths that put borders between sequences at odd places; one step decodes while others prefill.
    for (const int64_t n : {65, 1, 130, 64, 7, 33, 2, 63}) {
      tokens.push_back(tokens_of(n, n));
      alone.push_back(model.all_logits(tokens.back()));
      sequences.push_back(model.sequence());
    }
    const size_t orders[][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 7, 2, 5, 4}};
    for (const auto& order : orders) {
      std::vector<SequenceTokens> batch;
      size_t n_rows = 0;
      for (const size_t i : order) {
        sequences[i]->clear();
        batch.push_back({sequences[i].get(), tokens[i], SequenceTokens::Logits::all});
        n_rows += tokens[i].size();
      }
      std::vector<float> logits(n_rows * size_t(model.n_vocab()));
      REQUIRE(model->forward(batch, logits));
      auto at = logits.begin();
      for (const size_t i : order) {
        INFO(name << ", sequence " << i);
        REQUIRE(std::equal(alone[i].begin(), alone[i].end(), at));
        at += int64_t(alone[i].size());
      }
    }
  }
}

TEST_CASE("invariance: eight sequences decoded together step by step give the bytes of each alone") {
  for (const std::string name : kModels) {
    auto model = make(name, 2);
    constexpr int64_t kSteps = 70;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<std::vector<float>> alone, found(8);
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (int64_t i = 0; i < 8; ++i) {
      tokens.push_back(tokens_of(kSteps, 100 + i));
      alone.push_back(model.all_logits(tokens.back()));
      sequences.push_back(model.sequence());
    }
    std::vector<float> logits(8 * size_t(model.n_vocab()));
    for (size_t step = 0; step < size_t(kSteps); ++step) {
      std::vector<SequenceTokens> batch;
      for (size_t i = 0; i < 8; ++i) batch.push_back({sequences[i].get(), std::span(tokens[i]).subspan(step, 1)});
      REQUIRE(model->forward(batch, logits));
      for (size_t i = 0; i < 8; ++i) {
        const auto row = logits.begin() + int64_t(i) * model.n_vocab();
        found[i].insert(found[i].end(), row, row + model.n_vocab());
      }
    }
    for (size_t i = 0; i < 8; ++i) REQUIRE(found[i] == alone[i]);
  }
}

TEST_CASE("invariance: every backend of this machine gives the same bytes") {
  for (const std::string name : kModels) {
    const auto tokens = tokens_of(100, 2);
    const auto expected = make(name, 2, "reference").all_logits(tokens);
    for (const auto& choice : cpu_backends()) {
      if (!choice.missing.empty()) {
        WARN("skipped: backend " << choice.backend->name << ": " << choice.missing);
        continue;
      }
      INFO(name << ", backend " << choice.backend->name);
      REQUIRE(make(name, 2, std::string(choice.backend->name)).all_logits(tokens, 33) == expected);
    }
  }
}

}  // namespace kvasir::testing
