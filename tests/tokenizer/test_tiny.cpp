// The tokenizers of the shipped model and of the nano models against ids from the Rust library `tokenizers`, and what
// the shipped model says about itself.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/unicode.h"
#include "tests/tokenizer/vendor.h"

namespace kvasir {
namespace {

const std::string kTiny = KVASIR_SOURCE_DIR "/models/kvasir-tiny/", kData = KVASIR_SOURCE_DIR "/tests/data/";

void check_golden(const std::string& model, const std::string& golden_path) {
  const CharacterClasses classes;
  const Tokenizer tokenizer = load_tokenizer(model);
  const auto golden = nlohmann::json::parse(std::ifstream(golden_path));
  REQUIRE(golden.size() == 32);
  for (const auto& row : golden) {
    const auto text = row["text"].get<std::string>();
    INFO(model << ": " << text);
    const auto ids = tokenizer.encode(text, {.parse_control = true});
    CHECK(ids == row["ids"].get<std::vector<int32_t>>());
    CHECK(tokenizer.decode(ids, true) == to_nfc(text, classes));
  }
}

TEST_CASE("tokenizer: kvasir-tiny gives the golden ids, and the text back") {
  check_golden(kTiny + "kvasir-tiny-q4_k_m.gguf", kTiny + "tokenizer_golden.json");
}

TEST_CASE("tokenizer: the nano models give the golden ids, and the text back") {
  for (const char* model : {"nano-qwen3_moe", "nano-qwen3_5_moe"})
    check_golden(fmt::format("{}nano/{}/{}-q4_k_m.gguf", kData, model, model), kData + "tokenizers/golden-nano.json");
}

TEST_CASE("tokenizer: kvasir-tiny names its special tokens") {
  const Tokenizer tokenizer = load_tokenizer(kTiny + "kvasir-tiny-q4_k_m.gguf");
  CHECK(tokenizer.warnings().empty());
  CHECK(tokenizer.n_vocab() == 4096);
  CHECK(!tokenizer.add_bos());
  const int32_t im_end = tokenizer.find("<|im_end|>");
  REQUIRE(im_end >= 0);
  CHECK(tokenizer.is_control(im_end));
  CHECK(tokenizer.is_end(im_end));
  CHECK(tokenizer.is_end(tokenizer.eos()));
  CHECK(!tokenizer.is_end(tokenizer.find("<|im_start|>")));
  CHECK(tokenizer.piece(im_end).empty());
  CHECK(tokenizer.piece(im_end, true) == "<|im_end|>");
  CHECK(tokenizer.chat_template().find("im_start") != std::string_view::npos);
  CHECK(tokenizer.find("no such token") == -1);
}

}  // namespace
}  // namespace kvasir
