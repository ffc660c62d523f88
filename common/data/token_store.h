// Documents as token ids with target marks, memory-mapped from one file. Immutable once written.
#ifndef COXSWAIN_COMMON_DATA_TOKEN_STORE_H_
#define COXSWAIN_COMMON_DATA_TOKEN_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

// The token store's file, version 1 or 2, little endian:
//
//   magic (8 bytes) | documents | index | values | trailer (96 bytes)
//
// A document is its ids (int32), then ceil(length/8) bytes of target bits, then zeros up to a
// multiple of 4. The index begins at a multiple of 8 and has one entry per document; entries may
// share a document's bytes (weighted copies). Version 2 has floats behind the index, equally many
// for each entry, in order of the entries; how many follows from the size of the file. A store
// without values is of version 1. The trailer is last so that the file is written front to back.

inline constexpr std::array<char, 8> kTokenStoreMagic = {'C', 'O', 'X', 'T', 'O', 'K', 'E', 'N'};
inline constexpr uint32_t kTokenStoreVersion = 1;
inline constexpr uint32_t kTokenStoreWithValues = 2;

struct TokenStoreTrailer {
  std::array<char, 8> magic = kTokenStoreMagic;
  uint32_t version = kTokenStoreVersion;
  uint32_t trailer_bytes = 96;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;        // of all index entries
  int64_t num_targets = 0;       // of all index entries
  int64_t longest_document = 0;  // tokens
  int64_t index_offset = 0;      // bytes from the start of the file
  int64_t file_bytes = 0;
  uint64_t documents_xxh3 = 0;  // XXH3-64 of the bytes before the index
  uint64_t index_xxh3 = 0;      // XXH3-64 of the index
  uint64_t values_xxh3 = 0;     // XXH3-64 of the values; 0: there are none
  uint64_t trailer_xxh3 = 0;    // XXH3-64 of the 88 bytes before this field
};
static_assert(sizeof(TokenStoreTrailer) == 96);

struct TokenStoreEntry {
  int64_t offset = 0;  // of the document's first id, bytes from the start of the file
  int32_t length = 0;  // tokens, >= 1
  int32_t targets = 0;
};
static_assert(sizeof(TokenStoreEntry) == 16);

// Bytes of a document of `length` tokens, ids and target bits, without the padding.
inline int64_t DocumentBytes(int64_t length) { return length * 4 + (length + 7) / 8; }

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
