#include "controller/driver/checkpoint_tensors.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::driver {

absl::StatusOr<CheckpointTensors> CheckpointTensors::Open(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".safetensors")) {
      paths.push_back(entry.path().string());
    }
  }
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint ", directory,
                     " has no rank-*.safetensors: it was removed or is not a "
                     "checkpoint"));
  }
  std::sort(paths.begin(), paths.end());
  CheckpointTensors tensors;
  tensors.directory_ = directory;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> shard, SafetensorsFile::Open(path));
    tensors.shards_.push_back(std::move(shard));
  }
  return tensors;
}

const TensorInfo* CheckpointTensors::Find(const std::string& name) const {
  for (const auto& shard : shards_) {
    if (const TensorInfo* tensor = shard->Find(name)) return tensor;
  }
  return nullptr;
}

}  // namespace coxswain::driver
