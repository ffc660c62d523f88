// SHA-256 (OpenSSL) of bytes, streams and files.
#ifndef COXSWAIN_COMMON_FILES_HASH_H_
#define COXSWAIN_COMMON_FILES_HASH_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain {

std::string Sha256(std::string_view bytes);  // 32 raw bytes
std::string ToHex(std::string_view bytes);   // lower case
// Cancelled soon after `cancelled` (may be empty) says so.
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path,
                                            const std::function<bool()>& cancelled = {});

// Incremental: Update any number of times, then Finish once (32 raw bytes).
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  void Update(std::string_view bytes);
  std::string Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_HASH_H_
