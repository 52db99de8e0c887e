// Thin over EVP.
#include "formats/slice/sha256.h"

#include <openssl/evp.h>

namespace kvasir {

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  KV_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 cannot start");
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  KV_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  KV_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1, "SHA-256 failed");
  KV_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 cannot start");
  return digest;
}

}  // namespace kvasir
