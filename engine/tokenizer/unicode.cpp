// UTF-8 steps and character classes, from utf8proc's tables.
#include "engine/tokenizer/unicode.h"

#include <utf8proc.h>

namespace kvasir {
namespace {

constexpr uint32_t kTableSize = 0x10000;

uint8_t category_bits(uint32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetter | kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLetter | kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kUpper | kLower;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark | kUpper | kLower;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kPunctuation;
    default:
      return 0;
  }
}

bool is_white_space(uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// The full canonical decomposition of a character; returns how many characters it has.
int canonical_decomposition(uint32_t code, std::array<utf8proc_int32_t, 16>& out) {
  int last_class = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), out.data(),
                                         static_cast<utf8proc_ssize_t>(out.size()),
                                         static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &last_class);
  return n > 0 ? static_cast<int>(n) : 0;
}

// Whether a character has a combining class or a canonical decomposition.
bool combines_or_decomposes(uint32_t code) {
  std::array<utf8proc_int32_t, 16> parts;
  const int n = canonical_decomposition(code, parts);
  return n != 1 || parts[0] != static_cast<utf8proc_int32_t>(code) ||
         utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class != 0;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[pos + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  if (first < 0xC2 || first > 0xF4) return {};
  const int n_bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and codes above U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  uint32_t code = first & (0x7F >> n_bytes);
  for (int i = 1; i < n_bytes; ++i) {
    if (pos + i >= text.size()) return {0xFFFD, static_cast<uint8_t>(i), false, true};
    const uint8_t next = byte(i);
    const bool fits = i == 1 ? next >= low && next <= high : (next & 0xC0) == 0x80;
    if (!fits) return {0xFFFD, static_cast<uint8_t>(i), false, false};
    code = code << 6 | (next & 0x3F);
  }
  return {code, static_cast<uint8_t>(n_bytes), true, false};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Step step = utf8_step(text, pos);
    if (!step.well_formed) break;
    pos += step.n_bytes;
  }
  return pos;
}

std::string utf8_repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size() + kReplacement.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    out += step.well_formed ? text.substr(pos, step.n_bytes) : kReplacement;
    pos += step.n_bytes;
  }
  return out;
}

void append_utf8(std::string& out, uint32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  for (utf8proc_ssize_t i = 0; i < n; ++i) out += static_cast<char>(bytes[static_cast<size_t>(i)]);
}

CharacterClasses::CharacterClasses() : table_(kTableSize) {
  for (uint32_t code = 0; code < kTableSize; ++code) {
    table_[code] = static_cast<uint8_t>(category_bits(code) | (is_white_space(code) ? kSpace : 0) |
                                        (combines_or_decomposes(code) ? kComposes : 0));
  }
  // What composes with the character before it is the end of some decomposition; most, but not all, also have a
  // combining class. Below U+0300 nothing does.
  std::array<utf8proc_int32_t, 16> parts;
  for (uint32_t code = 0xC0; code < kTableSize; ++code) {
    if ((table_[code] & kComposes) == 0) continue;
    const int n = canonical_decomposition(code, parts);
    for (int i = 1; i < n; ++i) {
      const auto part = static_cast<uint32_t>(parts[static_cast<size_t>(i)]);
      if (part < kTableSize) table_[part] |= kComposes;
    }
  }
  // Of what has a decomposition, most is its own normal form and begins with a letter that composes with nothing
  // before.
  for (uint32_t code = 0xC0; code < kTableSize; ++code) {
    const int n = canonical_decomposition(code, parts);
    if (n < 2 || table_[static_cast<size_t>(parts[0])] & kComposes) continue;
    const auto composed =
        utf8proc_normalize_utf32(parts.data(), n, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (composed == 1 && parts[0] == static_cast<utf8proc_int32_t>(code)) table_[code] &= uint8_t(~kComposes);
  }
}

// Beyond the table only emoji and ideographs are known not to compose; the rest takes the slow path of to_nfc.
uint8_t CharacterClasses::beyond_table(uint32_t code) {
  const bool plain = (code >= 0x1F000 && code < 0x2F800) || code >= 0x30000;
  return static_cast<uint8_t>(category_bits(code) | (plain ? 0 : kComposes));
}

}  // namespace kvasir
