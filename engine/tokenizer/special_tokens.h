// Finds the text of control and added tokens inside other text.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace kvasir {

// A trie of the tokens' texts. Finding is linear in the text's length, times the longest token's at worst.
class SpecialTokens {
 public:
  struct Match {
    size_t start = std::string_view::npos;
    size_t end = std::string_view::npos;
    int32_t id = -1;
  };

  SpecialTokens();
  // text must not be empty.
  void add(std::string_view text, int32_t id, bool is_control);
  // The first match at or after pos, the longest there, of the kinds that the options allow; id is -1 if there is none.
  Match find(std::string_view text, size_t pos, const EncodeOptions& options) const;

 private:
  struct Node {
    int32_t id = -1;
    bool is_control = false;
    uint8_t byte = 0;
    uint32_t first_child = 0, sibling = 0;  // 0: none; the root is no one's child
  };
  uint32_t child(uint32_t node, uint8_t byte) const;
  std::vector<Node> nodes_;
  std::vector<uint32_t> starts_;  // the root's children by their byte
};

}  // namespace kvasir
