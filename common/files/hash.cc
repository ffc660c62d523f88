#include "common/files/hash.h"

#include <openssl/evp.h>

#include <vector>

#include "common/files/regular_file.h"
#include "common/status_macros.h"

namespace coxswain {

struct Sha256Stream::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256Stream::Sha256Stream() : impl_(std::make_unique<Impl>()) {
  EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr);
}

Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::Update(std::string_view bytes) {
  EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size());
}

std::string Sha256Stream::Finish() {
  std::string digest(32, '\0');
  unsigned int length = 0;
  EVP_DigestFinal_ex(impl_->context, reinterpret_cast<unsigned char*>(digest.data()), &length);
  return digest;
}

std::string Sha256(std::string_view bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path,
                                            const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  Sha256Stream stream;
  std::vector<char> block(size_t{1} << 20);
  for (int64_t offset = 0;;) {
    ASSIGN_OR_RETURN(const int64_t count,
                     file.ReadAt(offset, static_cast<int64_t>(block.size()), block.data()));
    if (count == 0) break;
    if (cancelled && cancelled()) return absl::CancelledError("hashing " + path + " was cancelled");
    stream.Update({block.data(), static_cast<size_t>(count)});
    offset += count;
  }
  return ToHex(stream.Finish());
}

}  // namespace coxswain
