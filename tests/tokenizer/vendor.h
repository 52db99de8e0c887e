// The vendors' vocabularies and the golden rows that go with them.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace kvasir {

// The path of a file that scripts/fetch-tokenizers.sh makes ("qwen3.gguf"). nullopt, after printing that the test is
// skipped and why, if it cannot be had.
std::optional<std::string> vendor_file(const std::string& name);

// Fails the test case if the file does not load.
Tokenizer load_tokenizer(const std::string& path);

// One string of tests/data/tokenizers/golden-NAME.jsonl.
struct GoldenRow {
  std::string id;
  std::string text;     // any bytes
  std::string decoded;  // what its ids decode to
  std::vector<int32_t> ids, ids_user, ids_plain;
};

std::vector<GoldenRow> golden_rows(const std::string& name);

std::string read_file(const std::string& path);

}  // namespace kvasir
