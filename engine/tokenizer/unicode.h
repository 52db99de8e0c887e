// UTF-8 taken apart, ill-formed bytes included, and the few classes of characters that the split patterns ask for.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// One step through any bytes. Ill-formed: code is U+FFFD and n_bytes the length of the maximal ill-formed part
// (Unicode 15, 3.9, "U+FFFD Substitution of Maximal Subparts").
struct Utf8Step {
  uint32_t code = 0xFFFD;
  uint8_t n_bytes = 1;
  bool well_formed = false;
  bool cut = false;  // ill-formed only because the text ends here
};

// The character at text[pos]; pos < text.size().
Utf8Step utf8_step(std::string_view text, size_t pos);

// The character at text[pos] of well-formed UTF-8, which the caller has checked; pos < text.size().
inline Utf8Step utf8_step_unchecked(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(text[pos + i])}; };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2, true, false};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3, true, false};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4, true, false};
}

// Bytes from the start that are well-formed UTF-8.
size_t utf8_valid_prefix(std::string_view text);

// text with every maximal ill-formed part replaced by U+FFFD.
std::string utf8_repaired(std::string_view text);

// code <= U+10FFFF, no surrogate.
void append_utf8(std::string& out, uint32_t code);

// Bits of a character's class. Categories are utf8proc's (Unicode 15).
enum CharacterClass : uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kMark = 4,          // \p{M}
  kSpace = 8,         // White_Space: U+180E is none, and PCRE2's \s is wrong about it
  kPunctuation = 16,  // \p{P} and \p{S}
  kUpper = 32,        // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 64,        // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  kComposes = 128,    // NFC may change it, or join it to the character before
};

// The classes of all characters: a table for the first 65,536, computed beyond. Immutable.
class CharacterClasses {
 public:
  CharacterClasses();
  // Bits of CharacterClass.
  uint8_t operator[](uint32_t code) const { return code < table_.size() ? table_[code] : beyond_table(code); }

 private:
  static uint8_t beyond_table(uint32_t code);
  std::vector<uint8_t> table_;
};

// text in Unicode's normal form C, in O(n log n); text is well-formed UTF-8. Equal to `text` where no character
// composes.
std::string to_nfc(std::string_view text, const CharacterClasses& classes);

// Whether to_nfc could change anything.
bool may_need_nfc(std::string_view text, const CharacterClasses& classes);

}  // namespace kvasir
