// SHA-256 (OpenSSL), for the hash tree of a model.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

struct evp_md_ctx_st;

namespace kvasir {

using Digest = std::array<uint8_t, 32>;

// Piece by piece; finish gives the digest and starts anew. Move-only.
class Sha256 {
 public:
  Sha256();
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Digest finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// 64 lower-case hexadecimal digits, and back (either case); malformed for anything else.
std::string to_hex(const Digest& digest);
Expected<Digest> digest_from_hex(std::string_view hex);

}  // namespace kvasir
