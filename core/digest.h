// 32 bytes that name something: a SHA-256 digest, or an Ed25519 public key.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace kvasir {

using Digest = std::array<uint8_t, 32>;

// 64 lower-case hexadecimal digits, and back (either case); malformed for anything else.
std::string to_hex(const Digest& digest);
Expected<Digest> digest_from_hex(std::string_view hex);

}  // namespace kvasir
