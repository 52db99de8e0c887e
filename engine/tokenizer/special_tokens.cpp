// The trie of special tokens. Children are lists: below the root there are few, and text seldom gets there.
#include "engine/tokenizer/special_tokens.h"

namespace kvasir {

SpecialTokens::SpecialTokens() : nodes_(1), starts_(256) {}

uint32_t SpecialTokens::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return starts_[byte];
  uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].sibling;
  return at;
}

void SpecialTokens::add(std::string_view text, int32_t id, bool is_control) {
  uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({-1, false, byte, 0, nodes_[node].first_child});
      nodes_[node].first_child = next;
      if (node == 0) starts_[byte] = next;
    }
    node = next;
  }
  nodes_[node].id = id;
  nodes_[node].is_control = is_control;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t pos, const EncodeOptions& options) const {
  Match match;
  if (!options.parse_control && !options.parse_added) return match;
  for (; pos < text.size() && match.id < 0; ++pos) {
    uint32_t node = 0;
    for (size_t end = pos; end < text.size(); ++end) {
      node = child(node, static_cast<uint8_t>(text[end]));
      if (node == 0) break;
      const Node& found = nodes_[node];
      if (found.id >= 0 && (found.is_control ? options.parse_control : options.parse_added))
        match = {pos, end + 1, found.id};
    }
  }
  return match;
}

}  // namespace kvasir
