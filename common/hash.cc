#include "common/hash.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "common/posix_status.h"

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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, "open", path);
  Sha256Stream stream;
  std::vector<char> block(size_t{1} << 20);
  size_t count = 0;
  while ((count = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    if (cancelled && cancelled()) return absl::CancelledError("hashing " + path + " was cancelled");
    stream.Update({block.data(), count});
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, "read", path);
  return ToHex(stream.Finish());
}

}  // namespace coxswain
