// Any bytes through every option and pre-tokenizer of a small vocabulary, and back; any tokens through the stream
// decoder. Input: one byte of options, one that names the pre-tokenizer, the text.
#include <cstdint>
#include <vector>

#include "tests/tokenizer/small_vocabulary.h"

namespace kvasir {
namespace {

struct Target {
  Tokenizer tokenizer;
  bool normalizes;
};

std::vector<Target> load_targets() {
  std::vector<Target> targets;
  for (const char* pre : {"gpt-2", "qwen2", "qwen35", "llama-bpe", "deepseek-v3", "gpt-4o"}) {
    SmallVocabulary vocabulary(pre);
    vocabulary.ids.emplace_back("tokenizer.ggml.bos_token_id", 256);
    auto tokenizer = vocabulary.load();
    KV_CHECK(tokenizer, tokenizer ? "" : tokenizer.error().message);
    targets.push_back({std::move(*tokenizer), std::string_view(pre).starts_with("qwen")});
  }
  return targets;
}

// What is shown is well-formed at every step, and in all the same as decoding at once.
void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string shown = decoder.push(id);
    KV_CHECK(utf8_valid_prefix(shown) == shown.size(), "a stream's text is well-formed");
    streamed += shown;
  }
  streamed += decoder.finish();
  KV_CHECK(streamed == utf8_repaired(tokenizer.decode(ids)), "a stream shows what decoding gives");
}

void check_round_trip(const Target& target, std::string_view text, EncodeOptions options) {
  static const CharacterClasses classes;
  const auto ids = target.tokenizer.encode(text, options);
  for (const int32_t id : ids) KV_CHECK(id >= 0 && id < target.tokenizer.n_vocab(), "ids are in the vocabulary");
  std::string expected = utf8_repaired(text);
  std::string decoded = target.tokenizer.decode(ids, true);
  if (options.add_bos) decoded.erase(0, target.tokenizer.piece(target.tokenizer.bos(), true).size());
  // Special tokens cut the text before it is normalized; comparing both normalized covers that.
  if (target.normalizes) expected = to_nfc(expected, classes), decoded = to_nfc(decoded, classes);
  KV_CHECK(decoded == expected, "encoding loses nothing");
  check_stream(target.tokenizer, ids);
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<kvasir::Target> targets = kvasir::load_targets();
  if (size < 2) return 0;
  const kvasir::Target& target = targets[data[1] % targets.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  kvasir::check_round_trip(
      target, text,
      {.add_bos = (data[0] & 1) != 0, .parse_control = (data[0] & 2) != 0, .parse_added = (data[0] & 4) != 0});
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back((static_cast<uint8_t>(c) * (1 + data[0] / 128)) % target.tokenizer.n_vocab());
  kvasir::check_stream(target.tokenizer, ids);
  return 0;
}
