// Text to token ids and back: byte-level BPE from GGUF metadata.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/gguf.h"

namespace kvasir {

struct EncodeOptions {
  bool add_bos = false;  // put the beginning-of-text token first (the model's own wish: Tokenizer::add_bos())
  bool parse_control =
      false;  // text of CONTROL tokens (<|im_end|>) becomes the token: for templates, never for users' text
  bool parse_added = true;  // text of USER_DEFINED tokens (<think>, <tool_call>) becomes the token
};

// Immutable after loading; all members may be called from any thread.
class Tokenizer {
 public:
  struct Impl;  // tokenizer_impl.h, for this folder alone

  // Reads tokenizer.ggml.*. Fails with unsupported for a model other than byte-level BPE ("gpt2"), with malformed for
  // broken vocabularies (missing bytes, merges of unknown tokens, ids out of range, duplicate tokens).
  // Copies what it needs: gguf may go afterwards.
  static Expected<Tokenizer> load(const Gguf& gguf);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes; ill-formed UTF-8 is read as U+FFFD per maximal ill-formed piece. Linear in the text's length.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes of one token, which need not be whole characters; a CONTROL token's are "" unless show_control.
  // 0 <= id < n_vocab().
  std::string_view piece(int32_t id, bool show_control = false) const;
  std::string decode(std::span<const int32_t> ids, bool show_control = false) const;

  int32_t n_vocab() const;
  int32_t bos() const;  // -1 if the model has none
  int32_t eos() const;  // -1 if the model has none
  bool add_bos() const;
  bool is_control(int32_t id) const;
  // eos, eot and every other token that ends a reply (<|im_end|>, <|endoftext|>, <|eot_id|>, …).
  bool is_end(int32_t id) const;
  // The id of a token by its text as the file spells it ("<|im_end|>"; ordinary tokens are spelled in the byte
  // alphabet,
  // "\u0120Paris"); -1 if there is none.
  int32_t find(std::string_view token) const;
  // tokenizer.chat_template; "" if the file has none.
  std::string_view chat_template() const;
  // What was odd but not fatal, as "pre-tokenizer \"foo\" is unknown; splitting as gpt-2 does"; printed by apps.
  std::span<const std::string> warnings() const;

 private:
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns tokens into text that never ends inside a UTF-8 character: holds back an incomplete tail of at most 3 bytes,
// replaces ill-formed bytes by U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::string push(int32_t id);  // what can be shown now, often the token's text, sometimes ""
  std::string finish();          // the rest; the decoder is then as new

 private:
  const Tokenizer* tokenizer_;
  std::string tail_;
};

}  // namespace kvasir
