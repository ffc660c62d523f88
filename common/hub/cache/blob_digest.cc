#include "common/hub/cache/blob_digest.h"

#include <openssl/evp.h>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"

namespace coxswain::hub {

struct BlobDigest::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

BlobDigest::BlobDigest(const std::string& etag, int64_t bytes) : impl_(std::make_unique<Impl>()) {
  const bool of_git = etag.size() == 40;
  EVP_DigestInit_ex(impl_->context, of_git ? EVP_sha1() : EVP_sha256(), nullptr);
  if (of_git) Update(absl::StrCat("blob ", bytes) + std::string(1, '\0'));
}

BlobDigest::~BlobDigest() = default;
BlobDigest::BlobDigest(BlobDigest&&) noexcept = default;
BlobDigest& BlobDigest::operator=(BlobDigest&&) noexcept = default;

void BlobDigest::Update(std::string_view bytes) {
  EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size());
}

std::string BlobDigest::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(impl_->context, digest, &length);
  return ToHex({reinterpret_cast<const char*>(digest), length});
}

}  // namespace coxswain::hub
