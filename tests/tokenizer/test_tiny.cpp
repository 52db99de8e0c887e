// The shipped model's tokenizer against ids from the Rust library `tokenizers`, and what the model says about itself.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"

namespace kvasir {
namespace {

const std::string kFolder = KVASIR_SOURCE_DIR "/models/kvasir-tiny/";

Tokenizer load_tiny() {
  auto gguf = Gguf::open(kFolder + "kvasir-tiny-q4_k_m.gguf");
  if (!gguf) FAIL(gguf.error().message);
  auto tokenizer = Tokenizer::load(*gguf);
  if (!tokenizer) FAIL(tokenizer.error().message);
  return std::move(*tokenizer);
}

TEST_CASE("tokenizer: kvasir-tiny gives the golden ids, and the text back") {
  const Tokenizer tokenizer = load_tiny();
  const auto golden = nlohmann::json::parse(std::ifstream(kFolder + "tokenizer_golden.json"));
  REQUIRE(golden.size() == 32);
  for (const auto& row : golden) {
    const auto text = row["text"].get<std::string>();
    INFO(text);
    const auto ids = tokenizer.encode(text, {.parse_control = true});
    CHECK(ids == row["ids"].get<std::vector<int32_t>>());
    if (row.value("decodes_to", text) == text && text.find('\xCC') == std::string::npos)
      CHECK(tokenizer.decode(ids, true) == text);
  }
}

TEST_CASE("tokenizer: kvasir-tiny names its special tokens") {
  const Tokenizer tokenizer = load_tiny();
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
