#include "controller/planner/weights_identity.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/safetensors_header.h"
#include "common/hash.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kBlocks = 16, kBlockBytes = 4096;

absl::Status HashRange(std::ifstream& stream, uint64_t begin, uint64_t bytes, Sha256Stream& hash) {
  std::string block(bytes, '\0');
  stream.clear();
  stream.seekg(static_cast<std::streamoff>(begin));
  stream.read(block.data(), static_cast<std::streamsize>(bytes));
  if (static_cast<uint64_t>(stream.gcount()) != bytes) {
    return absl::DataLossError("shorter than it was a moment ago");
  }
  hash.Update(block);
  return absl::OkStatus();
}

absl::Status HashFile(const fs::path& path, Sha256Stream& hash) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return absl::PermissionDeniedError("cannot be opened");
  const auto size = static_cast<uint64_t>(stream.tellg());
  uint64_t header = 0;
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (size < sizeof(header) || header > std::min(size - 8, kMaxSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError("is not a safetensors file");
  }
  hash.Update(absl::StrCat(path.filename().string(), "\n", size, "\n"));
  RETURN_IF_ERROR(HashRange(stream, 0, 8 + header, hash));
  const uint64_t data = size - 8 - header;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t begin = data / kBlocks * i;
    RETURN_IF_ERROR(
        HashRange(stream, 8 + header + begin, std::min(kBlockBytes, data - begin), hash));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> WeightsIdentity(const std::string& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  }
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, " holds no *.safetensors file",
                                            error ? ": " : "", error ? error.message() : ""));
  }
  std::sort(paths.begin(), paths.end());
  Sha256Stream hash;
  for (const fs::path& path : paths) {
    if (const absl::Status status = HashFile(path, hash); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(path.string(), " ", std::string(status.message())));
    }
  }
  return ToHex(hash.Finish());
}

}  // namespace coxswain::planner
