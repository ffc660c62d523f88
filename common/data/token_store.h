// Documents as token ids with target marks, memory-mapped from one file. Immutable once written.
#ifndef COXSWAIN_COMMON_DATA_TOKEN_STORE_H_
#define COXSWAIN_COMMON_DATA_TOKEN_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

class TokenStore {
 public:
  // Verifies magic, version, sizes and the index (O(documents)). DataLoss names the file and what
  // differs.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& path);
  ~TokenStore();

  // What was read of it counts once this, asked after it, says OK: MappedFile::Intact.
  absl::Status Intact() const;
  // Reads the whole file and compares its checksum. DataLoss: the documents are damaged. Cancelled
  // soon after `cancelled` (may be empty) says so.
  absl::Status VerifyDocuments(const std::function<bool()>& cancelled = {}) const;

  int64_t num_documents() const;
  int64_t num_tokens() const;
  int64_t num_targets() const;
  int64_t longest_document() const;        // tokens; 0: empty
  int32_t length(int64_t document) const;  // tokens, >= 1
  std::span<const int32_t> tokens(int64_t document) const;
  // Bit t (LSB first in byte t/8 of the document's own bytes): the token after t is a target of t.
  std::span<const uint8_t> target_bits(int64_t document) const;
  int64_t targets(int64_t document) const;                // set bits
  int64_t values_per_document() const;                    // 0: there are none
  std::span<const float> values(int64_t document) const;  // values_per_document() of them
  const std::string& path() const;
  int64_t file_bytes() const;
  // XXH3-64 of the trailer, which holds the checksums of documents and index: equal for equal
  // files.
  uint64_t fingerprint() const;
  // The documents are read soon: lets the kernel fetch them together instead of page by page.
  void Prefetch(std::span<const int64_t> documents) const;

 private:
  TokenStore();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_COMMON_DATA_TOKEN_STORE_H_
