// ChatML: template text is encoded with control tokens, message text without.
#include "engine/chat_template.h"

namespace kvasir {
namespace {

void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

}  // namespace

Expected<ChatTemplate> ChatTemplate::create(const Tokenizer& tokenizer) {
  if (tokenizer.chat_template().empty())
    return fail(ErrorCode::unsupported, "the model has no chat template (tokenizer.chat_template); use `generate`");
  if (tokenizer.chat_template().find("<|im_start|>") == std::string_view::npos || tokenizer.find("<|im_start|>") < 0 ||
      tokenizer.find("<|im_end|>") < 0)
    return fail(
        ErrorCode::unsupported,
        "the model's chat template is not ChatML (<|im_start|> … <|im_end|>), the only one that is rendered; write "
        "the prompt by hand and use `generate --control-tokens`");
  return ChatTemplate(tokenizer);
}

std::vector<int32_t> ChatTemplate::control(std::string_view text) const {
  return tokenizer_->encode(text, {.add_bos = false, .parse_control = true, .parse_added = true});
}

std::vector<int32_t> ChatTemplate::message(const ChatMessage& message) const {
  auto ids = control("<|im_start|>");
  append(ids,
         tokenizer_->encode(message.role + "\n" + message.content, {.parse_control = false, .parse_added = false}));
  append(ids, control("<|im_end|>\n"));
  return ids;
}

std::vector<int32_t> ChatTemplate::after_reply(bool ended) const {
  return control(ended ? "\n" : "<|im_end|>\n");
}

std::vector<int32_t> ChatTemplate::before_reply() const {
  return control("<|im_start|>assistant\n");
}

}  // namespace kvasir
