// The split patterns of the models' tokenizer.json as regular expressions, run by PCRE2: the oracle of split_pieces.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/pretokenizer.h"

namespace kvasir {

// Patterns that are applied one after the other, each within the pieces that the ones before have made.
std::vector<std::string> pattern_of(Pretokenizer kind);

// Compiled patterns.
class PatternSplitter {
 public:
  explicit PatternSplitter(Pretokenizer kind);
  ~PatternSplitter();
  PatternSplitter(const PatternSplitter&) = delete;
  PatternSplitter& operator=(const PatternSplitter&) = delete;

  // As split_pieces.
  std::vector<size_t> split(std::string_view text) const;

 private:
  struct Compiled;
  std::vector<Compiled> patterns_;
};

// Whether PCRE2's Unicode (14) knows the character: it cannot judge younger ones.
bool pattern_knows(uint32_t code);

}  // namespace kvasir
