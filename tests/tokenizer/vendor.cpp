// Fetches vocabularies once for a build folder; reads golden rows.
#include "tests/tokenizer/vendor.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/tokenizer/unicode.h"

namespace kvasir {
namespace {

const std::string kFolder = KVASIR_BUILD_DIR "/tokenizers";

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string repeated(const std::string& unit, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += unit;
  return text;
}

// The ids under a key, written out or by runs; nullopt if neither is there.
std::optional<std::vector<int32_t>> ids_of(const nlohmann::json& row, const std::string& key) {
  if (row.contains(key)) return row[key].get<std::vector<int32_t>>();
  if (!row.contains(key + "_rle")) return std::nullopt;
  std::vector<int32_t> ids;
  for (const auto& run : row[key + "_rle"]) ids.insert(ids.end(), run[1].get<size_t>(), run[0].get<int32_t>());
  return ids;
}

}  // namespace

std::optional<std::string> vendor_file(const std::string& name) {
  const std::string path = kFolder + "/" + name, log = kFolder + ".log";
  const std::string command = KVASIR_SOURCE_DIR "/scripts/fetch-tokenizers.sh '" + kFolder + "' 2>'" + log + "'";
  const int status = std::system(command.c_str());
  if (std::ifstream(path)) return path;
  const bool shared_only = name.ends_with(".inp") || name.ends_with(".out") || name == "gpt-2.gguf";
  const std::string why = shared_only   ? "only a folder named by KVASIR_SHARED_CASES has it\n"
                          : status != 0 ? read_file(log)
                                        : "no reason given\n";
  std::printf("tokenizer: skipped, no %s: %s", name.c_str(), why.c_str());
  std::fflush(stdout);
  return std::nullopt;
}

Tokenizer load_tokenizer(const std::string& path) {
  auto gguf = Gguf::open(path);
  if (!gguf) FAIL(gguf.error().message);
  auto tokenizer = Tokenizer::load(*gguf);
  if (!tokenizer) FAIL(tokenizer.error().message);
  return std::move(*tokenizer);
}

std::vector<GoldenRow> golden_rows(const std::string& name) {
  std::ifstream file(KVASIR_SOURCE_DIR "/tests/data/tokenizers/golden-" + name + ".jsonl");
  std::vector<GoldenRow> rows;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    GoldenRow row;
    row.id = json["id"].get<std::string>();
    const int n = json.value("repeat", 1);
    if (json.contains("hex")) {
      row.text = from_hex(json["hex"].get<std::string>());
    } else {
      row.text = repeated(json.contains("unit") ? json["unit"].get<std::string>() : json["text"].get<std::string>(), n);
    }
    row.decoded = utf8_repaired(row.text);
    if (json.contains("decodes_to")) row.decoded = json["decodes_to"].get<std::string>();
    if (json.contains("decodes_unit")) row.decoded = repeated(json["decodes_unit"].get<std::string>(), n);
    row.ids = ids_of(json, "ids").value();
    row.ids_user = ids_of(json, "ids_user").value_or(row.ids);
    row.ids_plain = ids_of(json, "ids_plain").value_or(row.ids_user);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace kvasir
