#include "common/data/token_store_writer.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "common/data/token_store.h"
#include "common/files/durable_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token stores are little endian");

constexpr size_t kBufferBytes = 1 << 20;

// XXH3-64 of a stream.
class StreamHash {
 public:
  StreamHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~StreamHash() { XXH3_freeState(state_); }
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void Update(std::string_view bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
  uint64_t Digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

// An unlinked file beside `path`, for what is kept until it can be appended.
absl::StatusOr<std::FILE*> OpenSpill(const std::string& path) {
  std::string name = absl::StrCat(path, ".index.XXXXXX");
  const int fd = mkstemp(name.data());
  if (fd < 0) return ErrnoStatus(errno, "create", name);
  unlink(name.c_str());
  std::FILE* file = fdopen(fd, "w+b");
  if (file == nullptr) {
    const int error = errno;
    close(fd);
    return ErrnoStatus(error, "open", name);
  }
  return file;
}

template <typename T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

struct TokenStoreWriter::Impl {
  std::string path;
  std::unique_ptr<DurableFile> file;
  std::FILE* spill = nullptr;   // the index
  std::FILE* values = nullptr;  // null: no document has any
  std::optional<size_t> values_per_document;
  std::string buffer;  // bytes not yet appended to `file`
  StreamHash documents_hash;
  int64_t offset = 0;  // of the next byte in the file
  TokenStoreTrailer trailer;

  ~Impl() {
    for (std::FILE* kept : {spill, values}) {
      if (kept != nullptr) std::fclose(kept);
    }
  }

  absl::Status Append(std::string_view bytes) {
    offset += static_cast<int64_t>(bytes.size());
    buffer.append(bytes);
    return buffer.size() >= kBufferBytes ? Flush() : absl::OkStatus();
  }
  absl::Status Flush() {
    RETURN_IF_ERROR(file->Append(buffer));
    buffer.clear();
    return absl::OkStatus();
  }
  absl::Status AppendDocumentBytes(std::string_view bytes) {
    documents_hash.Update(bytes);
    return Append(bytes);
  }
  absl::Status Pad(int64_t multiple) {
    static constexpr char kZeros[8] = {};
    const int64_t excess = offset % multiple;
    return excess == 0 ? absl::OkStatus()
                       : AppendDocumentBytes({kZeros, static_cast<size_t>(multiple - excess)});
  }
  absl::StatusOr<TokenStoreEntry> AppendDocument(const StoredDocument& document);
  absl::Status CheckValues(std::span<const StoredDocument> unit);
  absl::Status Keep(const void* bytes, size_t size, std::FILE* file) const;
  // Appends all that was kept; its hash.
  absl::StatusOr<uint64_t> CopyKept(std::FILE* kept);
};

absl::StatusOr<TokenStoreEntry> TokenStoreWriter::Impl::AppendDocument(
    const StoredDocument& document) {
  const int targets =
      std::accumulate(document.target_bits.begin(), document.target_bits.end(), 0,
                      [](int sum, uint8_t byte) { return sum + std::popcount(byte); });
  const TokenStoreEntry entry = {offset, static_cast<int32_t>(document.ids.size()), targets};
  RETURN_IF_ERROR(AppendDocumentBytes(BytesOf(document.ids)));
  RETURN_IF_ERROR(AppendDocumentBytes(BytesOf(document.target_bits)));
  RETURN_IF_ERROR(Pad(4));
  return entry;
}

absl::Status TokenStoreWriter::Impl::CheckValues(std::span<const StoredDocument> unit) {
  for (const StoredDocument& document : unit) {
    if (!values_per_document) values_per_document = document.values.size();
    if (document.values.size() == *values_per_document) continue;
    return absl::InternalError(absl::StrCat("token store ", path, ": a document has ",
                                            document.values.size(), " values, the first one ",
                                            *values_per_document));
  }
  return absl::OkStatus();
}

absl::Status TokenStoreWriter::Impl::Keep(const void* bytes, size_t size, std::FILE* file) const {
  if (std::fwrite(bytes, 1, size, file) == size) return absl::OkStatus();
  return ErrnoStatus(errno, "write the index of", path);
}

absl::StatusOr<uint64_t> TokenStoreWriter::Impl::CopyKept(std::FILE* kept) {
  if (std::fflush(kept) != 0) return ErrnoStatus(errno, "write the index of", path);
  StreamHash hash;
  std::vector<char> chunk(kBufferBytes);
  std::rewind(kept);
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), kept)) {
    hash.Update({chunk.data(), n});
    RETURN_IF_ERROR(Append({chunk.data(), n}));
  }
  if (std::ferror(kept)) return ErrnoStatus(errno, "read the index of", path);
  return hash.Digest();
}

TokenStoreWriter::TokenStoreWriter() : impl_(std::make_unique<Impl>()) {}
TokenStoreWriter::~TokenStoreWriter() = default;

absl::StatusOr<std::unique_ptr<TokenStoreWriter>> TokenStoreWriter::Create(
    const std::string& path) {
  std::unique_ptr<TokenStoreWriter> writer(new TokenStoreWriter());
  Impl& impl = *writer->impl_;
  impl.path = path;
  ASSIGN_OR_RETURN(impl.file, DurableFile::Create(path));
  ASSIGN_OR_RETURN(impl.spill, OpenSpill(path));
  RETURN_IF_ERROR(impl.AppendDocumentBytes({kTokenStoreMagic.data(), kTokenStoreMagic.size()}));
  return writer;
}

absl::Status TokenStoreWriter::Add(std::span<const int32_t> ids,
                                   std::span<const uint8_t> target_bits, int64_t copies) {
  const StoredDocument document{.ids = ids, .target_bits = target_bits, .values = {}};
  return Add(std::span(&document, 1), copies);
}

absl::Status TokenStoreWriter::Add(std::span<const StoredDocument> unit, int64_t copies) {
  Impl& impl = *impl_;
  RETURN_IF_ERROR(impl.CheckValues(unit));
  std::vector<TokenStoreEntry> entries;
  for (const StoredDocument& document : unit) {
    ASSIGN_OR_RETURN(const TokenStoreEntry entry, impl.AppendDocument(document));
    entries.push_back(entry);
    impl.trailer.num_documents += copies;
    impl.trailer.num_tokens += copies * entry.length;
    impl.trailer.num_targets += copies * entry.targets;
    impl.trailer.longest_document = std::max<int64_t>(impl.trailer.longest_document, entry.length);
  }
  std::vector<float> values;
  for (const StoredDocument& document : unit) {
    values.insert(values.end(), document.values.begin(), document.values.end());
  }
  if (!values.empty() && impl.values == nullptr) {
    ASSIGN_OR_RETURN(impl.values, OpenSpill(impl.path));
  }
  for (int64_t copy = 0; copy < copies; ++copy) {
    RETURN_IF_ERROR(
        impl.Keep(entries.data(), entries.size() * sizeof(TokenStoreEntry), impl.spill));
    if (values.empty()) continue;
    RETURN_IF_ERROR(impl.Keep(values.data(), values.size() * sizeof(float), impl.values));
  }
  return absl::OkStatus();
}

absl::Status TokenStoreWriter::Finish() {
  Impl& impl = *impl_;
  RETURN_IF_ERROR(impl.Pad(8));
  impl.trailer.documents_xxh3 = impl.documents_hash.Digest();
  impl.trailer.index_offset = impl.offset;
  ASSIGN_OR_RETURN(impl.trailer.index_xxh3, impl.CopyKept(impl.spill));
  if (impl.values != nullptr) {
    impl.trailer.version = kTokenStoreWithValues;
    ASSIGN_OR_RETURN(impl.trailer.values_xxh3, impl.CopyKept(impl.values));
  }
  impl.trailer.file_bytes = impl.offset + static_cast<int64_t>(sizeof(TokenStoreTrailer));
  impl.trailer.trailer_xxh3 = XXH3_64bits(&impl.trailer, offsetof(TokenStoreTrailer, trailer_xxh3));
  RETURN_IF_ERROR(
      impl.Append({reinterpret_cast<const char*>(&impl.trailer), sizeof(TokenStoreTrailer)}));
  RETURN_IF_ERROR(impl.Flush());
  return impl.file->Commit();
}

}  // namespace coxswain::data
