// How fast splitting, encoding and loading are. KVASIR_TOKENIZER_MB sets the megabytes of text (1 in the test run; 5
// for figures that are worth writing down).
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/tokenizer/pattern.h"
#include "tests/tokenizer/text.h"
#include "tests/tokenizer/vendor.h"

namespace kvasir {
namespace {

double seconds_of(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// English, Markdown, C++ and the golden strings of all scripts, again and again.
std::string mixed_text() {
  const char* megabytes = std::getenv("KVASIR_TOKENIZER_MB");
  const size_t n_bytes = 1'000'000 * static_cast<size_t>(megabytes != nullptr ? std::max(1, std::atoi(megabytes)) : 1);
  std::string part = read_file(KVASIR_SOURCE_DIR "/models/kvasir-tiny/README.md") +
                     read_file(KVASIR_SOURCE_DIR "/engine/tokenizer/pretokenizer.cpp");
  for (const GoldenRow& row : golden_rows("qwen3")) {
    // emoji-15 is younger than PCRE2's Unicode, which would split it otherwise.
    if (row.text.size() < 500 && row.id != "emoji-15") part += utf8_repaired(row.text) + "\n";
  }
  std::string text;
  while (text.size() < n_bytes) text += part;
  return text;
}

TEST_CASE("speed: every pattern splits mixed text as PCRE2 with JIT does") {
  const CharacterClasses classes;
  const std::string text = mixed_text();
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const PatternSplitter oracle(kind.kind);
    std::vector<size_t> ends;
    const double ours = seconds_of([&] {
      ends.clear();
      split_pieces(kind.kind, classes, text, ends);
    });
    std::vector<size_t> expected;
    const double theirs = seconds_of([&] { expected = oracle.split(text); });
    std::printf("%-12s %7zu pieces  %6.0f MB/s  PCRE2 %5.0f MB/s\n", kind.name, ends.size(), megabytes / ours,
                megabytes / theirs);
    CHECK((ends == expected));  // in brackets: a failure shall not print megabytes
  }
}

TEST_CASE("speed: loading and encoding with the vendors' vocabularies") {
  const std::string text = mixed_text();
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  for (const char* name : {"qwen3", "llama3", "deepseek_v3"}) {
    const auto path = vendor_file(std::string(name) + ".gguf");
    if (!path) return;
    auto gguf = Gguf::open(*path);
    REQUIRE(gguf);
    const double loading = seconds_of([&] { REQUIRE(Tokenizer::load(*gguf)); });
    const Tokenizer tokenizer = load_tokenizer(*path);
    std::vector<int32_t> ids;
    const double encoding = seconds_of([&] { ids = tokenizer.encode(text); });
    std::string decoded;
    const double decoding = seconds_of([&] { decoded = tokenizer.decode(ids); });
    std::printf("%-12s loaded in %4.0f ms  %8zu tokens  encodes %5.1f MB/s, decodes %5.0f MB/s\n", name, loading * 1e3,
                ids.size(), megabytes / encoding, megabytes / decoding);
    for (const char* unit : {"a", "_", "中", "qZ", "{\"k\":1,", "deadbeef"}) {
      std::string line;
      while (line.size() < 1'000'000) line += unit;
      const double seconds = seconds_of([&] { ids = tokenizer.encode(line); });
      std::printf("  1 MB of %-8s %4.0f ms\n", unit, seconds * 1e3);
      CHECK(seconds < 2.0);
    }
  }
}

}  // namespace
}  // namespace kvasir
