#include "common/data/token_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"
#include "common/status_macros.h"

namespace coxswain::data {

struct TokenStore::Impl {
  std::string path;
  std::unique_ptr<MappedFile> mapping;
  const char* bytes = nullptr;  // the whole file
  int64_t file_bytes = 0;
  TokenStoreTrailer trailer;
  std::span<const TokenStoreEntry> index;
  int64_t values_per_document = 0;
  const float* values = nullptr;  // of all documents; null: there are none

  absl::Status Damaged(std::string_view what, int64_t expected, int64_t got) const {
    return absl::DataLossError(absl::StrCat("token store ", path, ": ", std::string(what), " is ",
                                            got, ", expected ", expected,
                                            "; remove the file to have it rebuilt"));
  }
  absl::Status Map();
  absl::Status CheckTrailer();
  absl::Status CheckIndex();
};

absl::Status TokenStore::Impl::Map() {
  ASSIGN_OR_RETURN(mapping, MappedFile::Open(path));
  bytes = mapping->bytes().data();
  file_bytes = static_cast<int64_t>(mapping->bytes().size());
  const int64_t least = sizeof(kTokenStoreMagic) + sizeof(TokenStoreTrailer);
  if (file_bytes < least) return Damaged("size in bytes", least, file_bytes);
  // Bins visit documents in shuffled order: reading ahead would fill memory with other bins' pages.
  madvise(const_cast<char*>(bytes), static_cast<size_t>(file_bytes), MADV_RANDOM);
  return absl::OkStatus();
}

absl::Status TokenStore::Impl::CheckTrailer() {
  std::memcpy(&trailer, bytes + file_bytes - sizeof(trailer), sizeof(trailer));
  if (trailer.magic != kTokenStoreMagic ||
      std::memcmp(bytes, kTokenStoreMagic.data(), kTokenStoreMagic.size()) != 0) {
    return absl::DataLossError(absl::StrCat("token store ", path,
                                            ": its magic is missing; it is "
                                            "not a token store or is cut short"));
  }
  const bool has_values = trailer.version == kTokenStoreWithValues;
  if (trailer.version != kTokenStoreVersion && !has_values) {
    return Damaged("version", kTokenStoreVersion, trailer.version);
  }
  const uint64_t hash = XXH3_64bits(&trailer, offsetof(TokenStoreTrailer, trailer_xxh3));
  if (hash != trailer.trailer_xxh3) {
    return absl::DataLossError(absl::StrCat("token store ", path, ": its trailer is damaged"));
  }
  if (trailer.file_bytes != file_bytes) {
    return Damaged("size in bytes", trailer.file_bytes, file_bytes);
  }
  const int64_t index_bytes =
      file_bytes - static_cast<int64_t>(sizeof(trailer)) - trailer.index_offset;
  const int64_t entries = trailer.num_documents * static_cast<int64_t>(sizeof(TokenStoreEntry));
  const int64_t of_each = trailer.num_documents * static_cast<int64_t>(sizeof(float));
  if (has_values && of_each > 0) values_per_document = (index_bytes - entries) / of_each;
  const int64_t expected = entries + values_per_document * of_each;
  const bool missing = has_values && of_each > 0 && values_per_document < 1;
  if (index_bytes == expected && !missing) return absl::OkStatus();
  return Damaged("index size in bytes", missing ? entries + of_each : expected, index_bytes);
}

absl::Status TokenStore::Impl::CheckIndex() {
  index = {reinterpret_cast<const TokenStoreEntry*>(bytes + trailer.index_offset),
           static_cast<size_t>(trailer.num_documents)};
  if (XXH3_64bits(index.data(), index.size_bytes()) != trailer.index_xxh3) {
    return absl::DataLossError(absl::StrCat("token store ", path, ": its index is damaged"));
  }
  if (values_per_document == 0) return absl::OkStatus();
  // The index begins at a multiple of 8 and has 16 bytes for an entry, so floats are aligned.
  values = reinterpret_cast<const float*>(bytes + trailer.index_offset + index.size_bytes());
  const size_t count = index.size() * static_cast<size_t>(values_per_document);
  if (XXH3_64bits(values, count * sizeof(float)) != trailer.values_xxh3) {
    return absl::DataLossError(absl::StrCat("token store ", path, ": its values are damaged"));
  }
  return absl::OkStatus();
}

TokenStore::TokenStore() : impl_(std::make_unique<Impl>()) {}
TokenStore::~TokenStore() = default;

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(const std::string& path) {
  std::unique_ptr<TokenStore> store(new TokenStore());
  store->impl_->path = path;
  RETURN_IF_ERROR(store->impl_->Map());
  RETURN_IF_ERROR(store->impl_->CheckTrailer());
  RETURN_IF_ERROR(store->impl_->CheckIndex());
  RETURN_IF_ERROR(store->Intact());
  return store;
}

absl::Status TokenStore::VerifyDocuments(const std::function<bool()>& cancelled) const {
  // Through read, not the mapping: pages of a mapping would count as this process's memory.
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(impl_->path));
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  std::vector<char> chunk(4 << 20);
  int64_t offset = 0;
  absl::Status status;
  while (offset < impl_->trailer.index_offset && status.ok()) {
    const int64_t want =
        std::min<int64_t>(static_cast<int64_t>(chunk.size()), impl_->trailer.index_offset - offset);
    if (cancelled && cancelled()) {
      status = absl::CancelledError(absl::StrCat("reading ", impl_->path, " was cancelled"));
      break;
    }
    const absl::StatusOr<int64_t> got = file.ReadAt(offset, want, chunk.data());
    status = got.ok() && *got < want
                 ? impl_->Damaged("size in bytes", impl_->file_bytes, offset + *got)
                 : got.status();
    if (!status.ok()) break;
    XXH3_64bits_update(state, chunk.data(), static_cast<size_t>(want));
    offset += want;
  }
  const uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  RETURN_IF_ERROR(status);
  if (hash != impl_->trailer.documents_xxh3) {
    return absl::DataLossError(
        absl::StrCat("token store ", impl_->path, ": its documents are damaged"));
  }
  return absl::OkStatus();
}

absl::Status TokenStore::Intact() const { return impl_->mapping->Intact(); }

int64_t TokenStore::num_documents() const { return impl_->trailer.num_documents; }
int64_t TokenStore::num_tokens() const { return impl_->trailer.num_tokens; }
int64_t TokenStore::num_targets() const { return impl_->trailer.num_targets; }
int64_t TokenStore::longest_document() const { return impl_->trailer.longest_document; }
const std::string& TokenStore::path() const { return impl_->path; }
int64_t TokenStore::file_bytes() const { return impl_->file_bytes; }
uint64_t TokenStore::fingerprint() const { return impl_->trailer.trailer_xxh3; }
int32_t TokenStore::length(int64_t document) const { return impl_->index[document].length; }
int64_t TokenStore::targets(int64_t document) const { return impl_->index[document].targets; }

int64_t TokenStore::values_per_document() const { return impl_->values_per_document; }

std::span<const float> TokenStore::values(int64_t document) const {
  const int64_t count = impl_->values_per_document;
  if (count == 0) return {};
  return {impl_->values + document * count, static_cast<size_t>(count)};
}

std::span<const int32_t> TokenStore::tokens(int64_t document) const {
  const TokenStoreEntry& entry = impl_->index[document];
  return {reinterpret_cast<const int32_t*>(impl_->bytes + entry.offset),
          static_cast<size_t>(entry.length)};
}

std::span<const uint8_t> TokenStore::target_bits(int64_t document) const {
  const TokenStoreEntry& entry = impl_->index[document];
  return {reinterpret_cast<const uint8_t*>(impl_->bytes + entry.offset + int64_t{4} * entry.length),
          static_cast<size_t>((entry.length + 7) / 8)};
}

void TokenStore::Prefetch(std::span<const int64_t> documents) const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const int64_t document : documents) {
    const TokenStoreEntry& entry = impl_->index[document];
    const int64_t begin = entry.offset / page * page;
    const int64_t bytes = entry.offset + DocumentBytes(entry.length) - begin;
    madvise(const_cast<char*>(impl_->bytes) + begin, static_cast<size_t>(bytes), MADV_WILLNEED);
  }
}

}  // namespace coxswain::data
