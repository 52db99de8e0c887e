// A conversation as the tokens that a chat model expects.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "engine/tokenizer/tokenizer.h"

namespace kvasir {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// ChatML (<|im_start|>role\ncontent<|im_end|>\n), which the Qwen families use. The markers become their tokens; the
// text of messages never does, whatever a user writes.
class ChatTemplate {
 public:
  // Fails with unsupported if the model has no template, or one that is not ChatML. Borrows tokenizer.
  static Expected<ChatTemplate> create(const Tokenizer& tokenizer);

  // One whole message.
  std::vector<int32_t> message(const ChatMessage& message) const;
  // What follows a reply whose text ended with (or, if !ended, without) its end token.
  std::vector<int32_t> after_reply(bool ended) const;
  // What stands before a reply.
  std::vector<int32_t> before_reply() const;

 private:
  explicit ChatTemplate(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::vector<int32_t> control(std::string_view text) const;
  const Tokenizer* tokenizer_;
};

}  // namespace kvasir
