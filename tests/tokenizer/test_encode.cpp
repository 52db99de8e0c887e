// Encoding with the small vocabulary: special tokens, ill-formed bytes, NFC, long pieces; decoding by streams.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <utf8proc.h>

#include "engine/tokenizer/bpe.h"
#include "tests/tokenizer/small_vocabulary.h"
#include "tests/tokenizer/text.h"

namespace kvasir {
namespace {

using Ids = std::vector<int32_t>;
constexpr uint32_t kSeed = 1117;

Tokenizer small(const std::string& pre) {
  auto tokenizer = SmallVocabulary(pre).load();
  if (!tokenizer) FAIL(tokenizer.error().message);
  return std::move(*tokenizer);
}

double seconds_of(const Tokenizer& tokenizer, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = tokenizer.encode(text);
  const auto stop = std::chrono::steady_clock::now();
  CHECK(!ids.empty());
  return std::chrono::duration<double>(stop - start).count();
}

TEST_CASE("tokenizer: special tokens are found as the options say, the longest first") {
  const Tokenizer tokenizer = small("qwen2");
  const std::string text = "a<|im_end|>><think><|im_end|>b";
  CHECK(tokenizer.encode(text, {.parse_control = true}) == Ids{'a', 258, 259, 257, 'b'});
  const Ids user = tokenizer.encode(text);
  CHECK(std::count(user.begin(), user.end(), 259) == 1);
  CHECK(std::count_if(user.begin(), user.end(), [&](int32_t id) { return tokenizer.is_control(id); }) == 0);
  const Ids plain = tokenizer.encode(text, {.parse_added = false});
  CHECK(std::count(plain.begin(), plain.end(), 259) == 0);
  const Ids controls = tokenizer.encode(text, {.parse_control = true, .parse_added = false});
  CHECK(std::count(controls.begin(), controls.end(), 259) == 0);
  CHECK(controls.back() == 'b');
  for (const Ids& ids : {user, plain}) CHECK(tokenizer.decode(ids) == text);
  CHECK(tokenizer.decode(controls, true) == text);
}

TEST_CASE("tokenizer: the beginning-of-text token is added on request, and once") {
  SmallVocabulary vocabulary;
  CHECK(small("qwen2").encode("a", {.add_bos = true}) == Ids{'a'});
  vocabulary.ids = {{"tokenizer.ggml.bos_token_id", 256}};
  const auto tokenizer = vocabulary.load();
  REQUIRE(tokenizer);
  CHECK(tokenizer->encode("a", {.add_bos = true}) == Ids{256, 'a'});
  CHECK(tokenizer->encode("", {.add_bos = true}) == Ids{256});
  CHECK(tokenizer->encode("").empty());
}

TEST_CASE("tokenizer: whole pieces are taken without merging for Llama 3 alone") {
  // Merging gives "a", "bc" for "abc" when "b c" ranks first; the token "abc" is there all the same.
  SmallVocabulary llama("llama-bpe"), qwen("qwen2");
  for (SmallVocabulary* vocabulary : {&llama, &qwen}) std::swap(vocabulary->merges[0], vocabulary->merges[1]);
  const auto whole = llama.load(), merged = qwen.load();
  REQUIRE(whole);
  REQUIRE(merged);
  CHECK(whole->encode("abc") == Ids{whole->find("abc")});
  CHECK(merged->encode("abc") == Ids{'a', merged->find("bc")});
}

TEST_CASE("tokenizer: each maximal ill-formed part is read as one U+FFFD (TK-07)") {
  const std::vector<std::pair<std::string, int>> cases = {{"\x80", 1},
                                                          {"\x80\x80\xBF", 3},
                                                          {"a\xC3", 1},
                                                          {"\xE6\xAD", 1},
                                                          {"a\xE6\xAD"
                                                           "b",
                                                           1},
                                                          {"\xF0\x9F\x98", 1},
                                                          {"\xC0\xAF", 2},
                                                          {"\xE0\x80\x80", 3},
                                                          {"\xED\xA0\x80", 3},
                                                          {"\xED\xA0\xBD\xED\xB8\x80", 6},
                                                          {"\xF4\x90\x80\x80", 4},
                                                          {"\xFE\xFF", 2},
                                                          {"hel\xFFlo", 1},
                                                          {"\xE2(\xA1", 2},
                                                          {std::string(9, '\xFF'), 9}};
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const Tokenizer tokenizer = small(kind.name);
    for (const auto& [text, n_replaced] : cases) {
      const std::string decoded = tokenizer.decode(tokenizer.encode(text));
      CHECK(utf8_valid_prefix(decoded) == decoded.size());
      int n_found = 0;
      for (size_t at = 0; (at = decoded.find(kReplacement, at)) != std::string::npos; at += kReplacement.size())
        ++n_found;
      CHECK(n_found == n_replaced);
    }
  }
}

TEST_CASE("tokenizer: text comes back unchanged where there is no NFC") {
  std::mt19937 random(kSeed);
  for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-v3", "gpt-4o"}) {
    const Tokenizer tokenizer = small(pre);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = random_text(random, 40);
      CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    }
  }
}

TEST_CASE("tokenizer: NFC is utf8proc's, for every character and random text") {
  const CharacterClasses classes;
  std::mt19937 random(kSeed);
  const auto check = [&](const std::string& text) {
    utf8proc_uint8_t* mapped = nullptr;
    const auto n =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    REQUIRE(n >= 0);
    const std::string expected(reinterpret_cast<char*>(mapped), static_cast<size_t>(n));
    std::free(mapped);
    if (to_nfc(text, classes) != expected) CHECK(to_nfc(text, classes) == expected);
    if (!may_need_nfc(text, classes) && expected != text) CHECK(expected == text);
  };
  // utf8proc 2.8 swallows U+11A7 after a Hangul syllable; Unicode (3.12, composition) leaves it.
  const std::string before_finals = "\xEA\xB0\x80\xE1\x86\xA7";
  CHECK(to_nfc(before_finals, classes) == before_finals);
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if ((code >= 0xD800 && code < 0xE000) || code == 0x11A7) continue;
    std::string one;
    append_utf8(one, code);
    check(one);
    // Where what comes before may compose with it: a letter, Hangul, and parts of Indic vowels.
    for (const char* before : {"a", "\xE1\x84\x80", "\xEA\xB0\x80", "\xE0\xA7\x87", "\xE0\xAF\x86", "\xE0\xB7\x99"})
      check(before + one);
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random_text(random, 12);
    check(text);
    // Decomposed, so that most characters compose.
    utf8proc_uint8_t* apart = utf8proc_NFD(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    if (apart != nullptr) check(reinterpret_cast<char*>(apart));
    std::free(apart);
  }
}

TEST_CASE("tokenizer: long pieces merge as short ones do") {
  // The definition: the lowest rank, leftmost, until none is left.
  const auto naive = [](const MergeTable& merges, Ids ids) {
    for (;;) {
      size_t best = ids.size();
      uint32_t rank = MergeTable::kNoRank;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const uint32_t found = merges.find(ids[i], ids[i + 1]).rank;
        if (found < rank) best = i, rank = found;
      }
      if (rank == MergeTable::kNoRank) return ids;
      ids[best] = merges.find(ids[best], ids[best + 1]).merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  };
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    MergeTable merges(60);
    for (uint32_t rank = 0; rank < 60; ++rank)
      merges.add(static_cast<int32_t>(random() % (4 + rank)), static_cast<int32_t>(random() % (4 + rank)), rank,
                 static_cast<int32_t>(4 + rank));
    BpeMerger merger(merges);
    for (const int n : {0, 1, 2, 7, 31, 32, 33, 200}) {
      Ids symbols, found;
      for (int i = 0; i < n; ++i) symbols.push_back(static_cast<int32_t>(random() % 4));
      const Ids expected = naive(merges, symbols);
      merger.merge(symbols, found);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("tokenizer: time grows linearly with one long word (TK-06)") {
  const std::vector<std::string> words = {"a", "_", "\xE4\xB8\xAD", "deadbeef", "{\"k\":1,", "e\xCC\x81"};
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const Tokenizer tokenizer = small(kind.name);
    for (const std::string& word : words) {
      std::string text;
      while (text.size() < 300'000) text += word;
      INFO(kind.name << " " << word);
      CHECK(seconds_of(tokenizer, text) < 1.0);
    }
  }
}

TEST_CASE("tokenizer: a line of 1 MB without a blank takes less than 2 s") {
  std::mt19937 random(kSeed);
  std::string letters, base64, marks, control;
  while (letters.size() < 1'000'000) letters += static_cast<char>('a' + random() % 6);
  while (base64.size() < 1'000'000)
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[random() % 64];
  // Marks of falling class, which sorting by insertion takes quadratic time for; and text that all but ends a token.
  while (marks.size() < 1'000'000) marks += marks.size() < 500'000 ? "\xCC\x81" : "\xCC\xA3";
  while (control.size() < 1'000'000) control += "<|im_end|";
  for (const NamedPretokenizer& kind : kPretokenizers) {
    const Tokenizer tokenizer = small(kind.name);
    for (const std::string* text : {&letters, &base64, &marks, &control}) {
      INFO(kind.name << " " << text->substr(0, 10));
      CHECK(seconds_of(tokenizer, *text) < 2.0);
    }
  }
}

TEST_CASE("stream decoder: characters come whole, however tokens cut them") {
  const Tokenizer tokenizer = small("qwen2");
  StreamDecoder decoder(tokenizer);
  CHECK(decoder.push(0xF0).empty());
  CHECK(decoder.push(0x9F).empty());
  CHECK(decoder.push(0x98).empty());
  CHECK(decoder.push(0x80) == "\xF0\x9F\x98\x80");
  CHECK(decoder.push(0xE4).empty());
  CHECK(decoder.push('a') ==
        "\xEF\xBF\xBD"
        "a");
  CHECK(decoder.push(0xFF) == "\xEF\xBF\xBD");
  CHECK(decoder.push(0xC3).empty());
  CHECK(decoder.finish() == "\xEF\xBF\xBD");
  CHECK(decoder.finish().empty());
  CHECK(decoder.push('b') == "b");
  CHECK(decoder.push(257).empty());  // control
}

TEST_CASE("stream decoder: random bytes give well-formed text, the same as all at once") {
  const Tokenizer tokenizer = small("qwen2");
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    Ids ids;
    for (int i = 0; i < 20; ++i) {
      ids.push_back(static_cast<int32_t>(random() % 3 == 0 ? random() % 256 : 0x80 + random() % 0x78));
      const std::string shown = decoder.push(ids.back());
      CHECK(utf8_valid_prefix(shown) == shown.size());
      streamed += shown;
    }
    streamed += decoder.finish();
    CHECK(streamed == utf8_repaired(tokenizer.decode(ids)));
  }
}

}  // namespace
}  // namespace kvasir
