// The hand-written splitters against their regular expressions in PCRE2, over random and golden text.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "tests/tokenizer/pattern.h"
#include "tests/tokenizer/text.h"
#include "tests/tokenizer/vendor.h"

namespace kvasir {
namespace {

constexpr uint32_t kSeed = 20250802;

std::string shown(std::string_view text, const std::vector<size_t>& ends) {
  std::string out;
  size_t start = 0;
  for (const size_t end : ends) {
    out.append("[").append(text.substr(start, end - start)).append("]");
    start = end;
  }
  return out;
}

void check_split(const CharacterClasses& classes, const NamedPretokenizer& kind, const PatternSplitter& oracle,
                 const std::string& text) {
  std::vector<size_t> ends;
  split_pieces(kind.kind, classes, text, ends);
  const auto expected = oracle.split(text);
  if (ends == expected) return;
  INFO(kind.name << ": expected " << shown(text, expected) << " found " << shown(text, ends));
  CHECK(ends == expected);
}

// PCRE2 takes characters younger than its Unicode for unassigned; one golden string has some, and has its golden ids.
bool all_known(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    if (!pattern_knows(step.code)) return false;
    pos += step.n_bytes;
  }
  return true;
}

TEST_CASE("pretokenizer: every pattern splits random Unicode text as PCRE2 does") {
  const CharacterClasses classes;
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const PatternSplitter oracle(kind.kind);
    std::mt19937 random(kSeed);
    INFO("seed " << kSeed);
    for (int i = 0; i < 30'000; ++i) check_split(classes, kind, oracle, random_text(random, 24));
    for (int i = 0; i < 200; ++i) check_split(classes, kind, oracle, random_text(random, 2000));
  }
}

TEST_CASE("pretokenizer: every pattern splits all golden strings as PCRE2 does") {
  const CharacterClasses classes;
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const PatternSplitter oracle(kind.kind);
    for (const GoldenRow& row : golden_rows("qwen3")) {
      INFO(row.id);
      const std::string text = utf8_repaired(row.text);
      if (all_known(text)) check_split(classes, kind, oracle, text);
    }
  }
}

TEST_CASE("pretokenizer: every character has the classes that PCRE2 gives it") {
  const CharacterClasses classes;
  const PatternSplitter oracle(Pretokenizer::gpt_4o), marks(Pretokenizer::deepseek_v3);
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if ((code >= 0xD800 && code < 0xE000) || !pattern_knows(code)) continue;
    // Beside these neighbours a character's category shows in where the pieces end.
    std::string text = "A";
    append_utf8(text, code);
    text += "a ";
    append_utf8(text, code);
    text += "B1";
    append_utf8(text, code);
    check_split(classes, {"gpt-4o", Pretokenizer::gpt_4o}, oracle, text);
    check_split(classes, {"deepseek-v3", Pretokenizer::deepseek_v3}, marks, text);
  }
}

TEST_CASE("pretokenizer: known names are found, others are not") {
  for (const NamedPretokenizer& kind : kPretokenizers) CHECK(find_pretokenizer(kind.name) == kind.kind);
  for (const char* name : {"", "Qwen2", "qwen", "default", "mpt"}) CHECK(!find_pretokenizer(name));
}

TEST_CASE("pretokenizer: GPT-4o's case rules give back a letter without case") {
  const CharacterClasses classes;
  const std::string text = "ABCあDE HelloWORLD'S it'll don'Tx";
  std::vector<size_t> ends;
  split_pieces(Pretokenizer::gpt_4o, classes, text, ends);
  CHECK(shown(text, ends) == "[ABCあ][DE][ Hello][WORLD'S][ it'll][ don'T][x]");
}

}  // namespace
}  // namespace kvasir
