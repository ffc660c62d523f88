#include "controller/planner/model/weights_identity.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors/safetensors_header.h"
#include "common/files/torch/torch_pickle.h"
#include "common/files/torch/torch_zip.h"
#include "common/files/weights/weight_files.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kBlocks = 16, kBlockBytes = 4096;

absl::Status HashRange(const RegularFile& file, uint64_t begin, uint64_t bytes,
                       Sha256Stream& hash) {
  std::string block(bytes, '\0');
  ASSIGN_OR_RETURN(const int64_t got, file.ReadAt(static_cast<int64_t>(begin),
                                                  static_cast<int64_t>(bytes), block.data()));
  if (static_cast<uint64_t>(got) != bytes) {
    return absl::DataLossError(absl::StrCat(file.path(), " is shorter than it was a moment ago"));
  }
  hash.Update(block);
  return absl::OkStatus();
}

void HashName(const fs::path& path, uint64_t size, Sha256Stream& hash) {
  hash.Update(absl::StrCat(path.filename().string(), "\n", size, "\n"));
}

// Blocks of what lies behind `header` bytes.
absl::Status HashBlocks(const RegularFile& file, uint64_t header, Sha256Stream& hash) {
  const uint64_t data = static_cast<uint64_t>(file.bytes()) - header;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t begin = data / kBlocks * i;
    RETURN_IF_ERROR(HashRange(file, header + begin, std::min(kBlockBytes, data - begin), hash));
  }
  return absl::OkStatus();
}

absl::Status HashSafetensors(const fs::path& path, Sha256Stream& hash) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path.string()));
  const auto size = static_cast<uint64_t>(file.bytes());
  uint64_t header = 0;
  RETURN_IF_ERROR(file.ReadAt(0, sizeof(header), reinterpret_cast<char*>(&header)).status());
  if (size < sizeof(header) || header > std::min(size - 8, kMaxSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a safetensors file"));
  }
  HashName(path, size, hash);
  RETURN_IF_ERROR(HashRange(file, 0, 8 + header, hash));
  return HashBlocks(file, 8 + header, hash);
}

absl::Status HashTorchFile(const fs::path& path, Sha256Stream& hash) {
  ASSIGN_OR_RETURN(const auto mapped, MappedFile::Open(path.string()));
  const absl::StatusOr<TorchZip> zip = TorchZip::Read(mapped->bytes());
  if (!zip.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " ", std::string(zip.status().message())));
  }
  HashName(path, mapped->bytes().size(), hash);
  hash.Update(zip->directory());
  hash.Update(zip->Find("data.pkl").substr(0, kMostPickleBytes));
  RETURN_IF_ERROR(mapped->Intact());
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path.string()));
  return HashBlocks(file, /*header=*/0, hash);
}

}  // namespace

absl::StatusOr<std::string> WeightsIdentity(const std::string& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") paths.push_back(entry->path());
  }
  if (error) return ErrnoStatus(error.value(), "list", directory);
  std::sort(paths.begin(), paths.end());
  Sha256Stream hash;
  for (const fs::path& path : paths) RETURN_IF_ERROR(HashSafetensors(path, hash));
  const absl::StatusOr<std::vector<std::string>> weights = WeightPaths(directory);
  if (!absl::IsNotFound(weights.status())) RETURN_IF_ERROR(weights.status());
  for (const std::string& path : weights.ok() ? *weights : std::vector<std::string>()) {
    if (!path.ends_with(".bin")) continue;
    paths.emplace_back(path);
    RETURN_IF_ERROR(HashTorchFile(path, hash));
  }
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " holds no *.safetensors file and no pytorch_model.bin"));
  }
  return ToHex(hash.Finish());
}

}  // namespace coxswain::planner
