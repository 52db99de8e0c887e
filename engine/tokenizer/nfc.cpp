// Unicode's normal form C in O(n log n): utf8proc_map sorts combining marks by insertion, which is quadratic on a long
// run of them, so only its tables and its composition are used.
#include <algorithm>
#include <utf8proc.h>

#include "engine/tokenizer/unicode.h"

namespace kvasir {
namespace {

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

// Canonical order: marks between two starters stand by rising combining class, equal ones as they came.
void sort_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto from = codes.begin(); from != codes.end();) {
    if (combining_class(*from) == 0) {
      ++from;
      continue;
    }
    const auto to = std::find_if(from, codes.end(), [](auto code) { return combining_class(code) == 0; });
    std::stable_sort(from, to, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    from = to;
  }
}

// Appends the normal form of one stretch of text that nothing around it composes with.
void append_nfc(std::string& out, std::string_view text, std::vector<utf8proc_int32_t>& codes) {
  codes.clear();
  int last_class = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step_unchecked(text, pos);
    std::array<utf8proc_int32_t, 16> parts;
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, &last_class);
    codes.insert(codes.end(), parts.begin(), parts.begin() + std::max<utf8proc_ssize_t>(n, 0));
    pos += step.n_bytes;
  }
  sort_marks(codes);
  const auto n = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                          static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<uint32_t>(codes[static_cast<size_t>(i)]));
}

}  // namespace

bool may_need_nfc(std::string_view text, const CharacterClasses& classes) {
  for (size_t pos = 0; pos < text.size();) {
    if (static_cast<uint8_t>(text[pos]) < 0xCC) {  // U+0300 is the first that composes; its first byte is CC
      ++pos;
      continue;
    }
    const Utf8Step step = utf8_step_unchecked(text, pos);
    if (classes[step.code] & kComposes) return true;
    pos += step.n_bytes;
  }
  return false;
}

std::string to_nfc(std::string_view text, const CharacterClasses& classes) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> codes;
  size_t start = 0;        // of what is not yet written
  size_t last_plain = 0;   // where the last character starts that does not compose with what is before it
  bool composing = false;  // some character from last_plain on composes
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step_unchecked(text, pos);
    if (classes[step.code] & kComposes) {
      if (!composing) out += text.substr(start, last_plain - start);
      if (!composing) start = last_plain;
      composing = true;
    } else {
      if (composing) append_nfc(out, text.substr(start, pos - start), codes);
      if (composing) start = pos;
      composing = false;
      last_plain = pos;
    }
    pos += step.n_bytes;
  }
  if (composing) {
    append_nfc(out, text.substr(start), codes);
  } else {
    out += text.substr(start);
  }
  return out;
}

}  // namespace kvasir
