// Random text, mostly from sets that the patterns' rules tell apart.
#include "tests/tokenizer/text.h"

#include <iterator>
#include <string_view>

#include "tests/tokenizer/pattern.h"

using namespace std::string_view_literals;

namespace kvasir {
namespace {

// Each string is a set of its characters; each set is as likely as the next.
constexpr std::u32string_view kSets[] = {
    U"   \t"sv,
    U"\n\r\n\v\f\x85\xA0\u1680\u2003\u2028\u202F\u3000\u180E\x1C\x1F\u200B\uFEFF"sv,
    U"'’sStTrRvVmMlLdDeEſ"sv,
    U"abcxyzéßſαωя"sv,
    U"ABCXYZÉΑΩЯǅǈ"sv,
    U"ªʰˇʼˮๆ々〱ーｰ"sv,
    U"אبكงกあアー中文字한글"sv,
    U"0123456789²½Ⅷ٣३０〇"sv,
    U"\u0301\u0323\u0345\u093F\u093E\u094D\u0E31\u0E34\u20DD\u3099\uFE0F"sv,
    U".,:;!?/\\-_()[]{}<>|&^%$#@~`+=*\""sv,
    U"«»“”…—€§©→∑≠・゠、。，゛"sv,
    U"😀👍🏽‍🇩🇪𝒜𝟘𐍈𠀀"sv,
    U"\x00\x01\x7F\u0080\u00AD\u200D\u2060\uFFFD\uE000\uFFFF"sv,
};

uint32_t any_character(std::mt19937& random) {
  for (;;) {
    const auto code = static_cast<uint32_t>(random() % (random() % 4 == 0 ? 0x110000 : 0x3000));
    if ((code < 0xD800 || code >= 0xE000) && pattern_knows(code)) return code;
  }
}

}  // namespace

std::string random_text(std::mt19937& random, int n_characters) {
  std::string text;
  for (int i = 0; i < n_characters;) {
    const size_t choice = random() % (std::size(kSets) + 1);
    const int run = random() % 3 == 0 ? 1 + static_cast<int>(random() % 5) : 1;
    for (int j = 0; j < run; ++j, ++i) {
      if (choice == std::size(kSets)) {
        append_utf8(text, any_character(random));
        continue;
      }
      const std::u32string_view set = kSets[choice];
      append_utf8(text, static_cast<uint32_t>(set[random() % set.size()]));
    }
  }
  return text;
}

}  // namespace kvasir
