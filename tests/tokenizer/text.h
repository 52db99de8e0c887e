// Random text that reaches the corners of the split patterns.
#pragma once
#include <array>
#include <random>
#include <string>

#include "engine/tokenizer/pretokenizer.h"

namespace kvasir {

struct NamedPretokenizer {
  const char* name;  // as in tokenizer.ggml.pre
  Pretokenizer kind;
};

inline constexpr std::array<NamedPretokenizer, 6> kPretokenizers = {{{"gpt-2", Pretokenizer::gpt2},
                                                                     {"qwen2", Pretokenizer::qwen2},
                                                                     {"qwen35", Pretokenizer::qwen35},
                                                                     {"llama-bpe", Pretokenizer::llama_bpe},
                                                                     {"deepseek-v3", Pretokenizer::deepseek_v3},
                                                                     {"gpt-4o", Pretokenizer::gpt_4o}}};

// Well-formed UTF-8 of n characters: blanks, line breaks, contractions, digits, letters with and without case, marks,
// punctuation, CJK, emoji, and any other assigned character.
std::string random_text(std::mt19937& random, int n_characters);

}  // namespace kvasir
