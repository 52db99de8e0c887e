// The tokens of a model: their text in the file, the bytes they stand for, their kind; found by text.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace kvasir {

// As tokenizer.ggml.token_type numbers them.
enum class TokenKind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

// Byte-level BPE spells each byte as one printable character (a blank as U+0120): GPT-2's alphabet. Returns the
// character of a byte.
uint32_t byte_character(uint8_t byte);

// Tokens by id. Immutable after make.
class Vocabulary {
 public:
  // texts and kinds (1 … 6; empty: all normal) by id. Fails with malformed, naming the ids, for two tokens of the same
  // text, for a kind that is out of range or missing, for a byte that no normal token stands for.
  static Expected<Vocabulary> make(std::span<const std::string_view> texts, std::span<const int64_t> kinds);

  int32_t size() const { return static_cast<int32_t>(kinds_.size()); }
  TokenKind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
  std::string_view text(int32_t id) const { return texts_.at(id); }   // as the file spells it
  std::string_view bytes(int32_t id) const { return bytes_.at(id); }  // what it stands for
  int32_t find(std::string_view text) const;                          // -1 if there is none
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  int32_t n_odd() const { return n_odd_; }  // normal tokens that are not in the byte alphabet; no text gives them

 private:
  // Many short strings in one.
  class Strings {
   public:
    void add(std::string_view text) {
      all_ += text;
      ends_.push_back(all_.size());
    }
    std::string_view at(int32_t id) const {
      const auto i = static_cast<size_t>(id);
      return std::string_view(all_).substr(ends_[i], ends_[i + 1] - ends_[i]);
    }
    void reserve(size_t n) { ends_.reserve(n + 1); }

   private:
    std::string all_;
    std::vector<size_t> ends_ = {0};
  };

  size_t slot(std::string_view text) const;
  Strings texts_, bytes_;
  std::vector<TokenKind> kinds_;
  std::vector<int32_t> slots_;  // ids by the hash of their text, -1 if free
  std::array<int32_t, 256> byte_tokens_;
  int32_t n_odd_ = 0;
};

}  // namespace kvasir
