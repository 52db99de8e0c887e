// Vendors' vocabularies against the golden ids: templates' text, users' text, plain text, and back.
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/tokenizer/vendor.h"

namespace kvasir {
namespace {

constexpr EncodeOptions kTemplate = {.parse_control = true, .parse_added = true};
constexpr EncodeOptions kUser = {.parse_control = false, .parse_added = true};
constexpr EncodeOptions kPlain = {.parse_control = false, .parse_added = false};

std::string stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void check_golden(const std::string& name) {
  const auto path = vendor_file(name + ".gguf");
  if (!path) return;
  const Tokenizer tokenizer = load_tokenizer(*path);
  CHECK(tokenizer.warnings().empty());
  const auto rows = golden_rows(name);
  REQUIRE(rows.size() == 210);
  for (const GoldenRow& row : rows) {
    INFO(name << " " << row.id);
    const auto ids = tokenizer.encode(row.text, kTemplate);
    CHECK(ids == row.ids);
    CHECK(tokenizer.encode(row.text, kUser) == row.ids_user);
    CHECK(tokenizer.encode(row.text, kPlain) == row.ids_plain);
    CHECK(tokenizer.decode(ids, true) == row.decoded);
    CHECK(stream(tokenizer, row.ids_plain) == row.decoded);
  }
}

TEST_CASE("tokenizer: Qwen 3 gives the golden ids") {
  check_golden("qwen3");
}
TEST_CASE("tokenizer: Qwen 3's vocabulary with Qwen 3.5's pattern gives the golden ids") {
  check_golden("qwen3_pre35");
}
TEST_CASE("tokenizer: Llama 3 gives the golden ids") {
  check_golden("llama3");
}
TEST_CASE("tokenizer: DeepSeek V3 gives the golden ids") {
  check_golden("deepseek_v3");
}

// Strings and ids of llama.cpp's own tests; the last string is empty and has an empty line.
void check_pairs(const std::string& pairs, const std::string& vocabulary) {
  const auto path = vendor_file(vocabulary), inputs = vendor_file(pairs + ".inp"),
             outputs = vendor_file(pairs + ".out");
  if (!path || !inputs || !outputs) return;
  const Tokenizer tokenizer = load_tokenizer(*path);
  const std::string separator = "\n__ggml_vocab_test__\n", texts = read_file(*inputs);
  std::istringstream lines(read_file(*outputs));
  int n_checked = 0;
  for (size_t start = 0; start < texts.size(); ++n_checked) {
    const size_t end = std::min(texts.find(separator, start), texts.size());
    const std::string text = texts.substr(start, end - start);
    start = std::min(end + separator.size(), texts.size());
    std::string line;
    REQUIRE(std::getline(lines, line));
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id; numbers >> id;) expected.push_back(id);
    INFO(pairs << " " << n_checked << ": " << text);
    CHECK(tokenizer.encode(text) == expected);
    CHECK(tokenizer.decode(expected) == text);
  }
  CHECK(n_checked >= 46);
}

TEST_CASE("tokenizer: GPT-2 gives the ids of llama.cpp's pairs") {
  check_pairs("gpt-2", "gpt-2.gguf");
}
TEST_CASE("tokenizer: Qwen 3 gives the ids of llama.cpp's Qwen 2 pairs") {
  check_pairs("qwen2", "qwen3.gguf");
}
TEST_CASE("tokenizer: Llama 3 gives the ids of llama.cpp's pairs") {
  check_pairs("llama-bpe", "llama3.gguf");
}

}  // namespace
}  // namespace kvasir
