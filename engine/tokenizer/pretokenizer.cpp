// The split patterns as hand-written matchers: each rule returns where its match ends, and rules are tried in the
// pattern's order. Several times as fast as PCRE2 with JIT on the same text (bench in tests/tokenizer), which is the
// oracle of these matchers.
#include "engine/tokenizer/pretokenizer.h"

#include <array>
#include <utility>

namespace kvasir {
namespace {

constexpr size_t kNoMatch = 0;  // every match is longer than nothing, so no match ends at 0

struct Character {
  uint32_t code = 0;
  uint8_t n_bytes = 0;  // 0 at the end of the text
  uint8_t bits = 0;     // CharacterClass

  bool is(int mask) const { return (bits & mask) != 0; }
  bool is_newline() const { return code == '\n' || code == '\r'; }
};

// Looks at one stretch of text; rules see nothing outside it.
class Matcher {
 public:
  Matcher(const CharacterClasses& classes, std::string_view text) : classes_(classes), text_(text) {}

  size_t size() const { return text_.size(); }

  Character at(size_t pos) const {
    if (pos >= text_.size()) return {};
    const Utf8Step step = utf8_step_unchecked(text_, pos);
    return {step.code, step.n_bytes, classes_[step.code]};
  }

  // Where the run of characters with any of these bits ends that starts at pos.
  size_t run(size_t pos, int mask) const {
    for (Character c = at(pos); c.is(mask); c = at(pos)) pos += c.n_bytes;
    return pos;
  }

  // The same for characters with none of these bits.
  size_t run_without(size_t pos, int mask) const {
    for (Character c = at(pos); c.n_bytes != 0 && !c.is(mask); c = at(pos)) pos += c.n_bytes;
    return pos;
  }

  // [\r\n]* or, with a slash, [\r\n/]*
  size_t newlines(size_t pos, bool or_slash) const {
    while (pos < text_.size() && (text_[pos] == '\n' || text_[pos] == '\r' || (or_slash && text_[pos] == '/'))) ++pos;
    return pos;
  }

  // '(s|t|re|ve|m|ll|d) at pos; ignoring case, which also makes U+017F an s.
  size_t contraction(size_t pos, bool ignore_case) const {
    if (at(pos).code != '\'') return kNoMatch;
    const auto letter = [&](Character c) {
      if (!ignore_case) return c.code;
      return c.code == 0x17F ? uint32_t{'s'} : c.code >= 'A' && c.code <= 'Z' ? c.code | 0x20 : c.code;
    };
    const Character first = at(pos + 1);
    const size_t after_first = pos + 1 + first.n_bytes;
    const uint32_t a = letter(first);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return after_first;
    const Character second = at(after_first);
    const uint32_t b = letter(second);
    const bool pair = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return pair ? after_first + second.n_bytes : kNoMatch;
  }

  // [prefix]?[word]+, where no character of the prefix but a mark is also one of the word.
  size_t prefixed_word(size_t pos, int no_prefix, int word) const {
    const Character first = at(pos);
    const bool prefix = !first.is(no_prefix) && !first.is_newline();
    const size_t start = prefix && !first.is(word) ? pos + first.n_bytes : pos;
    const size_t end = run(start, word);
    return end > start ? end : kNoMatch;
  }

  // \p{N}{1,3} or as many as max_digits says
  size_t digits(size_t pos, int max_digits) const {
    Character c = at(pos);
    if (!c.is(kNumber)) return kNoMatch;
    for (int i = 0; i < max_digits && c.is(kNumber); ++i) {
      pos += c.n_bytes;
      c = at(pos);
    }
    return pos;
  }

  // " ?", for the rules that may begin with a blank
  size_t after_blank(size_t pos) const { return pos < text_.size() && text_[pos] == ' ' ? pos + 1 : pos; }

  // \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line break; else all but the last blank, which goes with the word after
  // it; else all.
  size_t white_space(size_t pos) const {
    size_t end = pos, last = pos, after_newline = kNoMatch;
    for (Character c = at(end); c.is(kSpace); c = at(end)) {
      last = end;
      end += c.n_bytes;
      if (c.is_newline()) after_newline = end;
    }
    if (after_newline != kNoMatch && newline_rule_) return after_newline;
    if (end == pos) return kNoMatch;
    return end < text_.size() && last > pos ? last : end;
  }

  // GPT-2's pattern has no rule for line breaks.
  void set_newline_rule(bool on) { newline_rule_ = on; }

 private:
  const CharacterClasses& classes_;
  std::string_view text_;
  bool newline_rule_ = true;
};

size_t match_gpt2(const Matcher& m, size_t pos) {
  if (const size_t end = m.contraction(pos, false); end != kNoMatch) return end;
  const size_t start = m.after_blank(pos);
  for (const int mask : {int{kLetter}, int{kNumber}}) {
    if (const size_t end = m.run(start, mask); end > start) return end;
  }
  if (const size_t end = m.run_without(start, kSpace | kLetter | kNumber); end > start) return end;
  return m.white_space(pos);
}

// qwen2, qwen35 and llama_bpe differ in what a word is made of and in how many digits go together.
size_t match_qwen(const Matcher& m, size_t pos, int word, int max_digits) {
  if (const size_t end = m.contraction(pos, true); end != kNoMatch) return end;
  if (const size_t end = m.prefixed_word(pos, kLetter | kNumber, word); end != kNoMatch) return end;
  if (const size_t end = m.digits(pos, max_digits); end != kNoMatch) return end;
  const size_t start = m.after_blank(pos);
  if (const size_t end = m.run_without(start, kSpace | kNumber | word); end > start) return m.newlines(end, false);
  return m.white_space(pos);
}

// [upper]*[lower]+ from pos, as backtracking finds it: the run of upper gives back its last character that is also a
// lower (a letter without case, or a mark) if no lower follows it.
size_t upper_then_lower(const Matcher& m, size_t pos) {
  size_t after_both = kNoMatch;
  size_t end = pos;
  for (Character c = m.at(end); c.is(kUpper); c = m.at(end)) {
    end += c.n_bytes;
    if (c.is(kLower)) after_both = end;
  }
  const size_t lower_end = m.run(end, kLower);
  return lower_end > end ? lower_end : after_both;
}

// [upper]+[lower]* from pos; only tried where upper_then_lower has failed.
size_t upper(const Matcher& m, size_t pos) {
  const size_t end = m.run(pos, kUpper);
  return end > pos ? m.run(end, kLower) : kNoMatch;
}

size_t match_gpt_4o(const Matcher& m, size_t pos) {
  const Character first = m.at(pos);
  const bool prefix = first.n_bytes != 0 && !first.is(kLetter | kNumber) && !first.is_newline();
  for (const auto word : {upper_then_lower, upper}) {
    size_t end = prefix ? word(m, pos + first.n_bytes) : kNoMatch;
    if (end == kNoMatch) end = word(m, pos);
    if (end == kNoMatch) continue;
    const size_t after_contraction = m.contraction(end, true);
    return after_contraction != kNoMatch ? after_contraction : end;
  }
  if (const size_t end = m.digits(pos, 3); end != kNoMatch) return end;
  const size_t start = m.after_blank(pos);
  if (const size_t end = m.run_without(start, kSpace | kLetter | kNumber); end > start) return m.newlines(end, true);
  return m.white_space(pos);
}

bool is_ascii_letter(uint32_t c) {
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

bool is_ascii_punctuation(uint32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

// The third of DeepSeek's patterns. kNoMatch where a character is in none of its rules.
size_t match_deepseek(const Matcher& m, size_t pos) {
  if (is_ascii_punctuation(m.at(pos).code) && is_ascii_letter(m.at(pos + 1).code)) {
    size_t end = pos + 1;
    while (is_ascii_letter(m.at(end).code)) ++end;
    return end;
  }
  const int word = kLetter | kMark;
  if (const size_t end = m.prefixed_word(pos, kLetter | kPunctuation, word); end != kNoMatch) return end;
  const size_t start = m.after_blank(pos);
  if (const size_t end = m.run(start, kPunctuation); end > start) return m.newlines(end, false);
  return m.white_space(pos);
}

bool is_deepseek_cjk(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

// Where the stretch from pos ends that DeepSeek's first two patterns make: three digits at most, a run of CJK, or what
// is between such.
size_t deepseek_stretch(const Matcher& m, size_t pos) {
  if (const size_t end = m.digits(pos, 3); end != kNoMatch) return end;
  const bool cjk = is_deepseek_cjk(m.at(pos).code);
  for (Character c = m.at(pos); c.n_bytes != 0; c = m.at(pos)) {
    if (is_deepseek_cjk(c.code) != cjk || c.is(kNumber)) break;
    pos += c.n_bytes;
  }
  return pos;
}

void split_deepseek(const CharacterClasses& classes, std::string_view text, std::vector<size_t>& ends) {
  const Matcher whole(classes, text);
  for (size_t start = 0; start < text.size();) {
    const size_t stop = deepseek_stretch(whole, start);
    const Matcher m(classes, text.substr(start, stop - start));
    for (size_t pos = 0; pos < m.size();) {
      size_t end = match_deepseek(m, pos);
      if (end != kNoMatch) {
        ends.push_back(start + end);
        pos = end;
        continue;
      }
      // What lies between two matches is a piece as well.
      for (end = pos; end < m.size() && match_deepseek(m, end) == kNoMatch;) end += m.at(end).n_bytes;
      ends.push_back(start + end);
      pos = end;
    }
    start = stop;
  }
}

template <class Match>
void split_by(const Matcher& m, Match match, std::vector<size_t>& ends) {
  for (size_t pos = 0; pos < m.size();) {
    pos = match(m, pos);
    ends.push_back(pos);
  }
}

}  // namespace

std::optional<Pretokenizer> find_pretokenizer(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Pretokenizer>, 10> kNames = {{
      {"gpt-2", Pretokenizer::gpt2},
      {"qwen2", Pretokenizer::qwen2},
      {"deepseek-r1-qwen", Pretokenizer::qwen2},
      {"qwen35", Pretokenizer::qwen35},
      {"llama-bpe", Pretokenizer::llama_bpe},
      {"llama3", Pretokenizer::llama_bpe},
      {"llama-v3", Pretokenizer::llama_bpe},
      {"deepseek-v3", Pretokenizer::deepseek_v3},
      {"gpt-4o", Pretokenizer::gpt_4o},
      {"llama4", Pretokenizer::gpt_4o},
  }};
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

void split_pieces(Pretokenizer kind, const CharacterClasses& classes, std::string_view text,
                  std::vector<size_t>& ends) {
  Matcher m(classes, text);
  switch (kind) {
    case Pretokenizer::gpt2:
      m.set_newline_rule(false);
      return split_by(m, match_gpt2, ends);
    case Pretokenizer::qwen2:
      return split_by(
          m, [](const Matcher& t, size_t pos) { return match_qwen(t, pos, kLetter, 1); }, ends);
    case Pretokenizer::qwen35:
      return split_by(
          m, [](const Matcher& t, size_t pos) { return match_qwen(t, pos, kLetter | kMark, 1); }, ends);
    case Pretokenizer::llama_bpe:
      return split_by(
          m, [](const Matcher& t, size_t pos) { return match_qwen(t, pos, kLetter, 3); }, ends);
    case Pretokenizer::deepseek_v3:
      return split_deepseek(classes, text, ends);
    case Pretokenizer::gpt_4o:
      return split_by(m, match_gpt_4o, ends);
  }
}

}  // namespace kvasir
