// What a model says about its own size.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/engine/models.h"

namespace {

std::atomic<int64_t> n_allocations{0};

}  // namespace

// The whole program's, so that allocations of every library in it are seen. Sanitizers have an operator new of their
// own, and the counter then stays at 0.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t n) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
#endif

namespace kvasir::testing {

TEST_CASE("accounting: a token reads every tensor once, but of the experts the chosen and of the embedding one row") {
  for (const std::string name : {"qwen3moe", "qwen35moe"}) {
    const std::string path = data_path("tinymoe/" + name + ".gguf");
    TestModel model(path);
    const auto gguf = Gguf::open(path);
    const auto bytes = model->bytes_per_token();
    uint64_t expected = 0, experts = 0;
    for (const GgufTensor& t : gguf->tensors()) {
      const auto n = uint64_t(t.view.bytes());
      if (t.name == "token_embd.weight")
        expected += n / uint64_t(t.view.n_rows);
      else if (t.name.find("_exps.") != std::string_view::npos)
        experts += n / 8 * 2;
      else
        expected += n;
    }
    INFO(name);
    REQUIRE(bytes.experts == experts);
    REQUIRE(bytes.total() == expected + experts);
    REQUIRE((bytes.shared_expert > 0) == (name == "qwen35moe"));
  }
}

TEST_CASE("accounting: packed weights are never larger than the file's, but for rounding up to whole row groups") {
  for (const auto& choice : cpu_backends()) {
    if (!choice.missing.empty()) continue;
    const std::string path = data_path("nano/nano-qwen3_5_moe/nano-qwen3_5_moe-q4_k_m.gguf");
    TestModel model(path, {.n_threads = 1, .context = 0, .backend = std::string(choice.backend->name)});
    INFO(choice.backend->name);
    REQUIRE(model->packed_bytes() <= Gguf::open(path)->file_bytes() * 11 / 10);
  }
}

TEST_CASE("accounting: a forward pass allocates nothing, for one token or a whole prompt") {
  const int64_t at_start = n_allocations.load();
  ::operator delete(::operator new(1));
  if (n_allocations.load() == at_start) {
    WARN("skipped: a sanitizer's operator new counts nothing");
    return;
  }
  for (const std::string name : {"nano-qwen3_moe", "nano-qwen3_5_moe"}) {
    TestModel model(data_path("nano/" + name + "/" + name + "-q4_k_m.gguf"));
    const auto s = model.sequence();
    std::vector<float> logits(size_t(model.n_vocab()));
    for (const int64_t n : {1, 2, 40, 600, 1, 1}) {
      const std::vector<int32_t> tokens(size_t(n), 7);
      const SequenceTokens entry{s.get(), tokens};
      const int64_t before = n_allocations.load();
      const auto done = model->forward({&entry, 1}, logits);
      const int64_t after = n_allocations.load();
      INFO(name << ", " << n << " tokens");
      REQUIRE(done);
      REQUIRE(after == before);
    }
  }
}

}  // namespace kvasir::testing
