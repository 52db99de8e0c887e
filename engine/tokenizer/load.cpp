// Reads a tokenizer from GGUF metadata, and refuses broken ones.
#include <algorithm>
#include <array>

#include "core/limits.h"
#include "engine/tokenizer/tokenizer_impl.h"

namespace kvasir {
namespace {

// Tokens that end a reply in the models that have them; by text, because files often name only one of them by id.
constexpr std::array<std::string_view, 12> kEndTokens = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",       "<|eot|>",
    "<|eom|>",    "<|return|>",    "<|call|>",   "<|EOT|>",    "<｜end▁of▁sentence｜>", "<end_of_turn>"};

Expected<Vocabulary> load_vocabulary(const Gguf& gguf) {
  KV_TRY(const auto texts, gguf.strings("tokenizer.ggml.tokens"));
  if (texts.size() > static_cast<size_t>(kMaxVocab))
    return fail(ErrorCode::limit, "tokenizer.ggml.tokens has {} tokens; at most {} are supported", texts.size(),
                kMaxVocab);
  std::vector<int64_t> kinds;
  if (gguf.find("tokenizer.ggml.token_type") != nullptr) {
    KV_TRY(kinds, gguf.integers("tokenizer.ggml.token_type"));
    if (kinds.empty()) return fail(ErrorCode::malformed, "tokenizer.ggml.token_type is empty");
  }
  auto vocabulary = Vocabulary::make(texts, kinds);
  if (!vocabulary) return in_context("tokenizer.ggml.tokens", vocabulary.error());
  return vocabulary;
}

// A merge is "left right"; neither token holds a blank, because the byte alphabet has none.
Expected<MergeTable> load_merges(const Gguf& gguf, const Vocabulary& vocabulary) {
  KV_TRY(const auto texts, gguf.strings("tokenizer.ggml.merges"));
  // Each merge makes a token from two; there are at most as many as ways to cut all tokens, and ranks have 32 bits.
  if (texts.size() >= MergeTable::kNoRank)
    return fail(ErrorCode::limit, "tokenizer.ggml.merges has {} merges; their ranks have 32 bits", texts.size());
  MergeTable merges(texts.size());
  std::string joined;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t blank = texts[i].find(' ');
    if (blank == std::string_view::npos || texts[i].find(' ', blank + 1) != std::string_view::npos)
      return fail(ErrorCode::malformed, "tokenizer.ggml.merges: merge {} is \"{}\"; expected two tokens and one blank",
                  i, utf8_repaired(texts[i].substr(0, 64)));
    const int32_t left = vocabulary.find(texts[i].substr(0, blank));
    const int32_t right = vocabulary.find(texts[i].substr(blank + 1));
    joined.assign(texts[i].substr(0, blank)).append(texts[i].substr(blank + 1));
    const int32_t merged = vocabulary.find(joined);
    if (left < 0 || right < 0 || merged < 0)
      return fail(ErrorCode::malformed,
                  "tokenizer.ggml.merges: merge {} is \"{}\", but \"{}\" is not in tokenizer.ggml.tokens", i,
                  utf8_repaired(texts[i].substr(0, 64)),
                  utf8_repaired((left < 0    ? texts[i].substr(0, blank)
                                 : right < 0 ? texts[i].substr(blank + 1)
                                             : std::string_view(joined))
                                    .substr(0, 64)));
    merges.add(left, right, static_cast<uint32_t>(i), merged);
  }
  return merges;
}

// The id under a key, -1 if the key is absent.
Expected<int32_t> load_id(const Gguf& gguf, std::string_view key, const Vocabulary& vocabulary) {
  KV_TRY(const auto id, gguf.optional_integer(key, 0, vocabulary.size() - 1));
  return static_cast<int32_t>(id.value_or(-1));
}

}  // namespace

Expected<Tokenizer> Tokenizer::load(const Gguf& gguf) {
  KV_TRY(const auto model, gguf.string("tokenizer.ggml.model"));
  if (model != "gpt2")
    return fail(ErrorCode::unsupported, "tokenizer.ggml.model is \"{}\"; only byte-level BPE (\"gpt2\") is supported",
                utf8_repaired(model.substr(0, 64)));
  KV_TRY(Vocabulary vocabulary, load_vocabulary(gguf));
  KV_TRY(MergeTable merges, load_merges(gguf, vocabulary));
  auto impl = std::make_unique<Impl>(std::move(vocabulary), std::move(merges));

  KV_TRY(const auto pre, gguf.optional_string("tokenizer.ggml.pre"));
  const auto kind = find_pretokenizer(pre.value_or(""));
  impl->pretokenizer = kind.value_or(Pretokenizer::gpt2);
  if (!pre)
    impl->warnings.push_back("the file names no pre-tokenizer (tokenizer.ggml.pre); splitting as gpt-2 does");
  else if (!kind)
    impl->warnings.push_back(
        fmt::format("pre-tokenizer \"{}\" is unknown; splitting as gpt-2 does", utf8_repaired(pre->substr(0, 64))));
  impl->normalizes = impl->pretokenizer == Pretokenizer::qwen2 || impl->pretokenizer == Pretokenizer::qwen35;
  impl->whole_pieces = impl->pretokenizer == Pretokenizer::llama_bpe;

  KV_TRY(impl->bos, load_id(gguf, "tokenizer.ggml.bos_token_id", impl->vocabulary));
  KV_TRY(impl->eos, load_id(gguf, "tokenizer.ggml.eos_token_id", impl->vocabulary));
  KV_TRY(const int32_t eot, load_id(gguf, "tokenizer.ggml.eot_token_id", impl->vocabulary));
  KV_TRY(const int32_t eom, load_id(gguf, "tokenizer.ggml.eom_token_id", impl->vocabulary));
  // Llama 3's files may leave the key out; its tokenizer.json always adds the token.
  KV_TRY(const auto adds_bos, gguf.optional_boolean("tokenizer.ggml.add_bos_token"));
  impl->adds_bos = adds_bos.value_or(impl->pretokenizer == Pretokenizer::llama_bpe) && impl->bos >= 0;
  KV_TRY(const auto chat_template, gguf.optional_string("tokenizer.chat_template"));
  impl->chat_template = chat_template.value_or("");

  impl->mark_tokens({eot, eom});
  return Tokenizer(std::move(impl));
}

void Tokenizer::Impl::mark_tokens(std::initializer_list<int32_t> end_ids) {
  ends.assign(static_cast<size_t>(vocabulary.size()), false);
  const auto mark_end = [&](int32_t id) {
    if (id >= 0) ends[static_cast<size_t>(id)] = true;
  };
  mark_end(eos);
  for (const int32_t id : end_ids) mark_end(id);
  const auto special = [&](std::string_view text) {
    const int32_t id = vocabulary.find(text);
    if (id < 0) return int32_t{-1};
    const TokenKind kind = vocabulary.kind(id);
    return kind == TokenKind::control || kind == TokenKind::user_defined ? id : int32_t{-1};
  };
  for (const std::string_view text : kEndTokens) mark_end(special(text));
  // gpt-oss ends a message of a reply with <|end|>, and the reply itself with <|return|> or <|call|>.
  if (special("<|return|>") < 0) mark_end(special("<|end|>"));

  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    const std::string_view text = vocabulary.text(id);
    if (kind == TokenKind::normal) longest_token = std::max(longest_token, text.size());
    if ((kind == TokenKind::control || kind == TokenKind::user_defined) && !text.empty())
      specials.add(text, id, kind == TokenKind::control);
  }
  if (vocabulary.n_odd() > 0)
    warnings.push_back(
        fmt::format("{} tokens are not spelled in the byte alphabet; no text will give them", vocabulary.n_odd()));
}

}  // namespace kvasir
