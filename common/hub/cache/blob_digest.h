// The hash by which the Hub names the content of a file.
#ifndef COXSWAIN_COMMON_HUB_CACHE_BLOB_DIGEST_H_
#define COXSWAIN_COMMON_HUB_CACHE_BLOB_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace coxswain::hub {

// Of the kind of `etag`: SHA-256 of the content (64 digits), or git's SHA-1 of it as a blob, which
// begins with its size (40). Update with the content in order, then Hex once.
// Source: Git LFS, specification, "The Pointer"; gitformat-loose(5).
class BlobDigest {
 public:
  BlobDigest(const std::string& etag, int64_t bytes);
  ~BlobDigest();
  BlobDigest(BlobDigest&&) noexcept;
  BlobDigest& operator=(BlobDigest&&) noexcept;

  void Update(std::string_view bytes);
  std::string Hex();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_BLOB_DIGEST_H_
