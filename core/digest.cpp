// Hexadecimal digits.
#include "core/digest.h"

#include <iterator>

namespace kvasir {

std::string to_hex(const Digest& digest) {
  std::string hex;
  for (const uint8_t byte : digest) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
  return hex;
}

Expected<Digest> digest_from_hex(std::string_view hex) {
  Digest digest;
  const auto value = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  bool good = hex.size() == 2 * digest.size();
  for (size_t i = 0; good && i < digest.size(); ++i) {
    const int high = value(hex[2 * i]), low = value(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    digest[i] = uint8_t(high * 16 + low);
  }
  if (!good) return fail(ErrorCode::malformed, "\"{}\" is no digest: 64 hexadecimal digits are expected", hex);
  return digest;
}

}  // namespace kvasir
