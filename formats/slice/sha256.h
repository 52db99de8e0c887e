// SHA-256 (OpenSSL), for the hash tree of a model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/digest.h"

struct evp_md_ctx_st;

namespace kvasir {

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

}  // namespace kvasir
