// Tokens by id and by text; GPT-2's byte alphabet.
#include "engine/tokenizer/vocabulary.h"

#include <bit>
#include <functional>

#include "engine/tokenizer/unicode.h"

namespace kvasir {
namespace {

constexpr int kNoByte = -1;
constexpr uint32_t kAlphabetEnd = 0x144;  // the last character that stands for a byte is U+0143

bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

// The byte of each character of the alphabet.
std::array<int16_t, kAlphabetEnd> bytes_by_character() {
  std::array<int16_t, kAlphabetEnd> bytes;
  bytes.fill(kNoByte);
  for (int byte = 0; byte < 256; ++byte) bytes[byte_character(static_cast<uint8_t>(byte))] = static_cast<int16_t>(byte);
  return bytes;
}

// Replaces `bytes` by what text stands for; false if text is not in the byte alphabet.
bool decode_alphabet(std::string_view text, const std::array<int16_t, kAlphabetEnd>& alphabet, std::string& bytes) {
  bytes.clear();
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    if (!step.well_formed || step.code >= kAlphabetEnd || alphabet[step.code] == kNoByte) return false;
    bytes += static_cast<char>(alphabet[step.code]);
    pos += step.n_bytes;
  }
  return true;
}

}  // namespace

// Printable Latin-1 stands for itself; the other bytes, in order, for the characters from U+0100 on.
uint32_t byte_character(uint8_t byte) {
  if (is_printable(byte)) return byte;
  if (byte <= 0x20) return 0x100u + byte;
  if (byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
  return 0x143;  // U+00AD, the soft hyphen
}

size_t Vocabulary::slot(std::string_view text) const {
  size_t at = std::hash<std::string_view>()(text) & (slots_.size() - 1);
  while (slots_[at] >= 0 && texts_.at(slots_[at]) != text) at = (at + 1) & (slots_.size() - 1);
  return at;
}

int32_t Vocabulary::find(std::string_view text) const {
  return slots_[slot(text)];
}

Expected<Vocabulary> Vocabulary::make(std::span<const std::string_view> texts, std::span<const int64_t> kinds) {
  if (!kinds.empty() && kinds.size() != texts.size())
    return fail(ErrorCode::malformed, "there are {} tokens but {} token types; expected one for each", texts.size(),
                kinds.size());
  Vocabulary vocabulary;
  vocabulary.slots_.assign(std::bit_ceil(2 * texts.size() + 1), -1);
  vocabulary.byte_tokens_.fill(-1);
  vocabulary.texts_.reserve(texts.size());
  vocabulary.bytes_.reserve(texts.size());
  const auto alphabet = bytes_by_character();
  std::string bytes;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t kind = kinds.empty() ? int64_t{1} : kinds[i];
    if (kind < 1 || kind > 6) return fail(ErrorCode::malformed, "token {} has type {}; known are 1 to 6", i, kind);
    const auto id = static_cast<int32_t>(i);
    int32_t& slot = vocabulary.slots_[vocabulary.slot(texts[i])];
    if (slot >= 0)
      return fail(ErrorCode::malformed, "tokens {} and {} have the same text \"{}\"; each text may stand once", slot, i,
                  utf8_repaired(texts[i].substr(0, 64)));
    slot = id;
    vocabulary.texts_.add(texts[i]);
    vocabulary.kinds_.push_back(static_cast<TokenKind>(kind));
    const bool spelled = vocabulary.kinds_.back() == TokenKind::normal && decode_alphabet(texts[i], alphabet, bytes);
    vocabulary.bytes_.add(spelled ? std::string_view(bytes) : texts[i]);
    if (spelled && bytes.size() == 1) vocabulary.byte_tokens_[static_cast<uint8_t>(bytes[0])] = id;
    if (!spelled && vocabulary.kinds_.back() == TokenKind::normal) ++vocabulary.n_odd_;
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (vocabulary.byte_tokens_[byte] < 0)
      return fail(ErrorCode::malformed, "no token stands for byte {:#04x}; byte-level BPE needs one for each byte",
                  byte);
  }
  return vocabulary;
}

}  // namespace kvasir
