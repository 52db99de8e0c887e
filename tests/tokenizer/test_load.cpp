// Vocabularies that are odd or broken, and what a loaded one says about itself.
#include <catch2/catch.hpp>

#include "tests/tokenizer/small_vocabulary.h"

namespace kvasir {
namespace {

void check_refused(const SmallVocabulary& vocabulary, ErrorCode code, const std::string& part) {
  const auto tokenizer = vocabulary.load();
  REQUIRE(!tokenizer);
  INFO(tokenizer.error().message);
  CHECK(tokenizer.error().code == code);
  CHECK(tokenizer.error().message.find(part) != std::string::npos);
}

TEST_CASE("tokenizer: the small vocabulary loads without a warning") {
  const auto tokenizer = SmallVocabulary().load();
  REQUIRE(tokenizer);
  CHECK(tokenizer->warnings().empty());
  CHECK(tokenizer->eos() == 257);
  CHECK(tokenizer->bos() == -1);
  CHECK(!tokenizer->add_bos());
  CHECK(tokenizer->chat_template().empty());
}

TEST_CASE("tokenizer: a model that is not byte-level BPE is refused by name") {
  SmallVocabulary vocabulary;
  vocabulary.model = "llama";
  check_refused(vocabulary, ErrorCode::unsupported, "\"llama\"");
}

TEST_CASE("tokenizer: an unknown pre-tokenizer is named in a warning and splits as gpt-2") {
  const auto odd = SmallVocabulary("abacus").load();
  const auto gpt2 = SmallVocabulary("gpt-2").load();
  REQUIRE(odd);
  REQUIRE(gpt2);
  REQUIRE(odd->warnings().size() == 1);
  CHECK(odd->warnings()[0] == "pre-tokenizer \"abacus\" is unknown; splitting as gpt-2 does");
  const std::string text = "it'S 123 aab\n\n abc";
  CHECK(odd->encode(text) == gpt2->encode(text));
}

TEST_CASE("tokenizer: a file without a pre-tokenizer's name gives a warning") {
  const auto tokenizer = SmallVocabulary("").load();
  REQUIRE(tokenizer);
  REQUIRE(tokenizer->warnings().size() == 1);
  CHECK(tokenizer->warnings()[0].find("tokenizer.ggml.pre") != std::string::npos);
}

TEST_CASE("tokenizer: a byte without a token is refused") {
  SmallVocabulary vocabulary;
  vocabulary.tokens[0x41] = "AAA";
  check_refused(vocabulary, ErrorCode::malformed, "0x41");
}

TEST_CASE("tokenizer: a byte's token that is not ordinary does not count") {
  SmallVocabulary vocabulary;
  vocabulary.kinds[0x42] = static_cast<int32_t>(TokenKind::control);
  check_refused(vocabulary, ErrorCode::malformed, "0x42");
}

TEST_CASE("tokenizer: two tokens of the same text are refused with both ids") {
  SmallVocabulary vocabulary;
  vocabulary.add("<think>", TokenKind::user_defined);
  check_refused(vocabulary, ErrorCode::malformed, "tokens 259 and 284");
}

TEST_CASE("tokenizer: merges that are not two known tokens are refused") {
  for (const char* merge : {"a", "", "a b c", "a  b", "zz a", "a zz", "z z"}) {
    SmallVocabulary vocabulary;
    vocabulary.merges.push_back(merge);
    check_refused(vocabulary, ErrorCode::malformed, "merge 22 is \"" + std::string(merge) + "\"");
  }
}

TEST_CASE("tokenizer: token types that are missing or out of range are refused") {
  SmallVocabulary vocabulary;
  vocabulary.kinds.pop_back();
  check_refused(vocabulary, ErrorCode::malformed, "284 tokens but 283 token types");
  for (const int32_t kind : {0, 7, -1}) {
    vocabulary = SmallVocabulary();
    vocabulary.kinds[300 - 17] = kind;
    check_refused(vocabulary, ErrorCode::malformed, "token 283 has type");
  }
}

TEST_CASE("tokenizer: without token types all tokens are ordinary") {
  SmallVocabulary vocabulary;
  vocabulary.kinds.clear();
  const auto tokenizer = vocabulary.load();
  REQUIRE(tokenizer);
  CHECK(!tokenizer->is_control(257));
}

TEST_CASE("tokenizer: ids of special tokens outside the vocabulary are refused") {
  for (const char* key : {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"}) {
    SmallVocabulary vocabulary;
    vocabulary.ids = {{std::string("tokenizer.ggml.") + key, 284}};
    check_refused(vocabulary, ErrorCode::malformed, key);
  }
}

TEST_CASE("tokenizer: ordinary tokens outside the byte alphabet give a warning, and no text gives them") {
  SmallVocabulary vocabulary;
  vocabulary.add("a b", TokenKind::normal);
  const auto tokenizer = vocabulary.load();
  REQUIRE(tokenizer);
  REQUIRE(tokenizer->warnings().size() == 1);
  CHECK(tokenizer->encode("a b") == std::vector<int32_t>{'a', ' ', 'b'});
}

TEST_CASE("tokenizer: the ends of a reply are eos, eot and the known tokens by text") {
  SmallVocabulary vocabulary;
  vocabulary.ids = {{"tokenizer.ggml.eos_token_id", 260}, {"tokenizer.ggml.eot_token_id", 256}};
  const auto tokenizer = vocabulary.load();
  REQUIRE(tokenizer);
  for (const int32_t id : {256, 257, 260}) CHECK(tokenizer->is_end(id));
  for (const int32_t id : {65, 258, 259, 261}) CHECK(!tokenizer->is_end(id));
}

TEST_CASE("tokenizer: <|end|> ends a reply, but not beside <|return|>") {
  SmallVocabulary vocabulary;
  vocabulary.add("<|end|>", TokenKind::control);
  const auto alone = vocabulary.load();
  vocabulary.add("<|return|>", TokenKind::control);
  const auto beside = vocabulary.load();
  REQUIRE(alone);
  REQUIRE(beside);
  CHECK(alone->is_end(alone->find("<|end|>")));
  CHECK(!beside->is_end(beside->find("<|end|>")));
  CHECK(beside->is_end(beside->find("<|return|>")));
}

}  // namespace
}  // namespace kvasir
