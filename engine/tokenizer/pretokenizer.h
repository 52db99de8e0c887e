// Cuts text into the pieces that BPE merges within, as each family's split pattern does.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "engine/tokenizer/unicode.h"

namespace kvasir {

// The names that tokenizer.ggml.pre gives to the split patterns. Each pattern, as the models' tokenizer.json has it:
// tests/tokenizer/pattern.h. All patterns cover their text: no byte is dropped.
enum class Pretokenizer {
  gpt2,         // GPT-2: contractions in lower case, runs of digits
  qwen2,        // Qwen 2 and 3: digits one by one
  qwen35,       // Qwen 3.5: as qwen2, but marks belong to words
  llama_bpe,    // Llama 3: as qwen2, but digits in threes
  deepseek_v3,  // DeepSeek V3: digits in threes, then CJK and kana, then the rest
  gpt_4o,       // o200k: upper and lower case apart, digits in threes
};

// nullopt for a name that is not known.
std::optional<Pretokenizer> find_pretokenizer(std::string_view name);

// Appends the end of each piece of text, in bytes from its start; the last one is text.size(). text is well-formed
// UTF-8. Linear in its length.
void split_pieces(Pretokenizer kind, const CharacterClasses& classes, std::string_view text, std::vector<size_t>& ends);

}  // namespace kvasir
