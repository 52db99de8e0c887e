// A small vocabulary of our own, written as a GGUF file: 256 bytes, some merges, some special tokens.
#pragma once
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/vocabulary.h"
#include "formats/gguf_writer.h"

namespace kvasir {

// What goes into the file; tests change it before loading.
struct SmallVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;  // left out of the file if empty
  std::vector<std::string> merges;
  std::string model = "gpt2";
  std::string pre;  // left out if empty
  std::vector<std::pair<std::string, uint32_t>> ids = {{"tokenizer.ggml.eos_token_id", 257}};

  explicit SmallVocabulary(std::string pre_name = "qwen2") : pre(std::move(pre_name)) {
    for (int byte = 0; byte < 256; ++byte) add(spelled(std::string(1, static_cast<char>(byte))), TokenKind::normal);
    add("<|bos|>", TokenKind::control);          // 256
    add("<|im_end|>", TokenKind::control);       // 257
    add("<|im_end|>>", TokenKind::control);      // 258, longer than the one before
    add("<think>", TokenKind::user_defined);     // 259
    add("<|endoftext|>", TokenKind::control);    // 260
    add("\xC3\xA9\xC3\xA9", TokenKind::unused);  // 261
    for (const char* merge : {"a b", "b c", "ab c", "a a", "aa aa", "aaaa aaaa", "Ġ a", "Ã ©", "Ì ģ", "1 2", "12 3"})
      add_merge(merge);
    for (const char* merge : {"_ _", "__ __", "d e", "a d", "b e", "e f", "de ad", "be ef", "' s", "Ċ Ċ", "e Ìģ"})
      add_merge(merge);
  }

  // Bytes in the byte alphabet.
  static std::string spelled(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) append_utf8(text, byte_character(static_cast<uint8_t>(c)));
    return text;
  }

  void add(const std::string& token, TokenKind kind) {
    tokens.push_back(token);
    kinds.push_back(static_cast<int32_t>(kind));
  }

  // "left right": the merge, and the token that it makes.
  void add_merge(const std::string& merge) {
    const size_t blank = merge.find(' ');
    merges.push_back(merge);
    add(merge.substr(0, blank) + merge.substr(blank + 1), TokenKind::normal);
  }

  Expected<Tokenizer> load() const {
    GgufWriter writer("vocabulary");
    writer.add_string("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    if (!kinds.empty()) writer.add_i32s("tokenizer.ggml.token_type", kinds);
    writer.add_strings("tokenizer.ggml.merges", merges);
    for (const auto& [key, id] : ids) writer.add_u32(key, id);
    const auto path =
        std::filesystem::temp_directory_path() / fmt::format("kvasir-vocabulary-{}-{}.gguf", getpid(), pre);
    KV_TRY_VOID(writer.write(path.string()));
    auto gguf = Gguf::open(path.string());
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    if (!gguf) return tl::unexpected<Error>(std::move(gguf.error()));
    return Tokenizer::load(*gguf);
  }
};

}  // namespace kvasir
