// PCRE2 with Unicode properties and JIT. Its \s holds U+180E, which White_Space does not: white space is spelled out.
#include "tests/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <catch2/catch.hpp>
#include <pcre2.h>

namespace kvasir {
namespace {

const std::string kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Replaces \s and \S, in and out of a set.
std::string spelled_out(const std::string& pattern) {
  std::string out;
  bool in_set = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string two = pattern.substr(i, 2);
    if (two == R"(\s)" || two == R"(\S)") {
      out += in_set ? kSpaces : (two[1] == 's' ? "[" : "[^") + kSpaces + "]";
      ++i;
      continue;
    }
    if (two[0] == '\\') {
      out += two;
      ++i;
      continue;
    }
    if (two[0] == '[') in_set = true;
    if (two[0] == ']') in_set = false;
    out += two[0];
  }
  return out;
}

// Puts `word` and `digits` into the shape that Qwen's and Llama's patterns share.
std::string qwen_like(const std::string& word, const std::string& not_word, const std::string& digits) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?)" + word + "+|" + digits + R"(| ?[^\s)" + not_word +
         R"(\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

pcre2_code* compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &at, nullptr);
  INFO(pattern << " at " << at);
  REQUIRE(code != nullptr);
  REQUIRE(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0);
  return code;
}

}  // namespace

std::vector<std::string> pattern_of(Pretokenizer kind) {
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::string contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  switch (kind) {
    case Pretokenizer::gpt2:
      return {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};
    case Pretokenizer::qwen2:
      return {qwen_like(R"(\p{L})", R"(\p{L})", R"(\p{N})")};
    case Pretokenizer::qwen35:
      return {qwen_like(R"([\p{L}\p{M}])", R"(\p{L}\p{M})", R"(\p{N})")};
    case Pretokenizer::llama_bpe:
      return {qwen_like(R"(\p{L})", R"(\p{L})", R"(\p{N}{1,3})")};
    case Pretokenizer::deepseek_v3:
      return {R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
              R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
              R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
    case Pretokenizer::gpt_4o:
      return {R"([^\r\n\p{L}\p{N}]?)" + upper + "*" + lower + "+" + contraction + R"(|[^\r\n\p{L}\p{N}]?)" + upper +
              "+" + lower + "*" + contraction + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  }
  return {};
}

struct PatternSplitter::Compiled {
  pcre2_code* code;
  pcre2_match_data* found;
};

PatternSplitter::PatternSplitter(Pretokenizer kind) {
  for (const std::string& pattern : pattern_of(kind)) {
    pcre2_code* code = compile(spelled_out(pattern));
    patterns_.push_back({code, pcre2_match_data_create_from_pattern(code, nullptr)});
  }
}

PatternSplitter::~PatternSplitter() {
  for (const Compiled& pattern : patterns_) {
    pcre2_match_data_free(pattern.found);
    pcre2_code_free(pattern.code);
  }
}

std::vector<size_t> PatternSplitter::split(std::string_view text) const {
  std::vector<size_t> ends;
  if (!text.empty()) ends.push_back(text.size());
  for (const Compiled& pattern : patterns_) {
    std::vector<size_t> finer;
    size_t start = 0;
    for (const size_t end : ends) {
      // A match sees nothing outside its piece.
      const auto* piece = reinterpret_cast<PCRE2_SPTR>(text.data() + start);
      for (size_t pos = 0; pos < end - start;) {
        const int n = pcre2_jit_match(pattern.code, piece, end - start, pos, 0, pattern.found, nullptr);
        if (n < 0) REQUIRE(n == PCRE2_ERROR_NOMATCH);
        const PCRE2_SIZE* match = pcre2_get_ovector_pointer(pattern.found);
        if (n < 0 || match[0] > pos) finer.push_back(n < 0 ? end : start + match[0]);
        if (n < 0) break;
        finer.push_back(start + match[1]);
        pos = match[1];
      }
      start = end;
    }
    ends = std::move(finer);
  }
  return ends;
}

bool pattern_knows(uint32_t code) {
  static pcre2_code* const unassigned = compile(R"(^\p{Cn})");
  static pcre2_match_data* const found = pcre2_match_data_create_from_pattern(unassigned, nullptr);
  std::string text;
  append_utf8(text, code);
  return pcre2_match(unassigned, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, found, nullptr) < 0;
}

}  // namespace kvasir
