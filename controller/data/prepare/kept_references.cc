#include "controller/data/prepare/kept_references.h"

#include <array>
#include <cstring>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

// Little endian: this, then the doubles of train and of eval, then XXH3-64 of all before it.
struct Header {
  std::array<char, 8> magic = {'C', 'O', 'X', 'R', 'E', 'F', 'S', '1'};
  int64_t train = 0, eval = 0;
};

constexpr int64_t kMostBytes = int64_t{1} << 34;

void Append(const std::vector<double>& sums, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double));
}

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

absl::Status WriteReferences(const std::string& path, const KeptReferences& references) {
  Header header;
  header.train = static_cast<int64_t>(references.train.size());
  header.eval = static_cast<int64_t>(references.eval.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  Append(references.train, &bytes);
  Append(references.eval, &bytes);
  const uint64_t hash = HashOf(bytes);
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  return WriteFileDurably(path, bytes);
}

absl::StatusOr<KeptReferences> ReadReferences(const std::string& path, int64_t train_documents,
                                              int64_t eval_documents) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMostBytes));
  const auto documents = static_cast<size_t>(train_documents + eval_documents);
  Header header, expected;
  uint64_t hash = 0;
  const size_t size = sizeof(header) + documents * sizeof(double) + sizeof(hash);
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (bytes.size() != size || header.magic != expected.magic || header.train != train_documents ||
      header.eval != eval_documents) {
    return absl::DataLossError(absl::StrCat(path, " has ", bytes.size(), " bytes for ",
                                            header.train, " and ", header.eval,
                                            " documents; the prepared data has ", train_documents,
                                            " and ", eval_documents, ", which take ", size));
  }
  std::memcpy(&hash, bytes.data() + size - sizeof(hash), sizeof(hash));
  if (hash != HashOf(std::string_view(bytes).substr(0, size - sizeof(hash)))) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its checksum is another"));
  }
  KeptReferences out{.train = std::vector<double>(static_cast<size_t>(train_documents)),
                     .eval = std::vector<double>(static_cast<size_t>(eval_documents))};
  const char* at = bytes.data() + sizeof(header);
  for (std::vector<double>* sums : {&out.train, &out.eval}) {
    std::memcpy(sums->data(), at, sums->size() * sizeof(double));
    at += sums->size() * sizeof(double);
  }
  return out;
}

}  // namespace coxswain::data
