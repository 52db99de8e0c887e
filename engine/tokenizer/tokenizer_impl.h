// What a loaded tokenizer is made of.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/special_tokens.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace kvasir {

struct Tokenizer::Impl {
  Impl(Vocabulary tokens, MergeTable pairs) : vocabulary(std::move(tokens)), merges(std::move(pairs)) {}

  // Fills ends, specials and longest_token; end_ids (-1: none) end a reply besides eos.
  void mark_tokens(std::initializer_list<int32_t> end_ids);

  Vocabulary vocabulary;
  MergeTable merges;
  SpecialTokens specials;
  CharacterClasses classes;
  std::vector<bool> ends;  // by id: ends a reply
  std::string chat_template;
  std::vector<std::string> warnings;
  Pretokenizer pretokenizer = Pretokenizer::gpt2;
  bool normalizes = false;    // text goes through NFC first, as the Qwen families' tokenizer.json says
  bool whole_pieces = false;  // a piece that is a token is not merged ("ignore_merges")
  size_t longest_token = 0;   // bytes of its text, normal tokens only
  bool adds_bos = false;
  int32_t bos = -1;
  int32_t eos = -1;
};

}  // namespace kvasir
