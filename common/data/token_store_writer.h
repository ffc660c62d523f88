// Writes a token store as a stream: memory stays flat whatever the number of documents.
#ifndef COXSWAIN_COMMON_DATA_TOKEN_STORE_WRITER_H_
#define COXSWAIN_COMMON_DATA_TOKEN_STORE_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

struct StoredDocument {
  std::span<const int32_t> ids;  // at least one
  // ceil(ids.size()/8) bytes, LSB first; the bit of the last token is 0.
  std::span<const uint8_t> target_bits;
  std::span<const float> values;  // all documents of a store have equally many
};

// A writer is not thread-safe. Until Finish the file has a temporary name beside `path`; a writer
// destroyed before Finish leaves nothing behind.
class TokenStoreWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TokenStoreWriter>> Create(const std::string& path);
  ~TokenStoreWriter();

  // Appends a document `copies` >= 1 times; its bytes are stored once.
  absl::Status Add(std::span<const int32_t> ids, std::span<const uint8_t> target_bits,
                   int64_t copies);
  // The same of documents that stay together: each copy has all of them, in this order. Internal:
  // a document has another number of values than the first one of the store.
  absl::Status Add(std::span<const StoredDocument> unit, int64_t copies);

  // Writes index and trailer, syncs, and renames to `path`. Call once; nothing may follow.
  absl::Status Finish();

 private:
  TokenStoreWriter();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_COMMON_DATA_TOKEN_STORE_WRITER_H_
