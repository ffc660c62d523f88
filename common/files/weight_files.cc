#include "common/files/weight_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

// name -> file name, from the only key a reader may need.
absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const nlohmann::json index = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not JSON with a weight_map object"));
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() ||
        fs::path(file.get<std::string>()).filename() != file.get<std::string>()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map of \"", name,
                                                     "\" must be a file name of the directory"));
    }
    files[name] = file.get<std::string>();
  }
  return files;
}

}  // namespace

struct WeightFiles::Impl {
  Renames renames;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;
  std::vector<const TensorInfo*> tensors;
  std::unordered_map<std::string, const TensorInfo*> by_name;

  absl::StatusOr<const SafetensorsFile*> File(const std::string& path) {
    auto& slot = files[path];
    if (slot == nullptr) {
      ASSIGN_OR_RETURN(slot, SafetensorsFile::Open(path));
    }
    return slot.get();
  }

  absl::Status Add(const std::string& directory, const TensorInfo* tensor) {
    tensors.push_back(tensor);
    const auto [there, added] = by_name.emplace(Renamed(tensor->name, renames), tensor);
    if (added) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": \"", there->second->name, "\" and \"", tensor->name,
                     "\" are two names of one tensor; remove the one that is out of date"));
  }

  absl::Status OpenSharded(const std::string& directory) {
    const std::string index = (fs::path(directory) / kIndex).string();
    ASSIGN_OR_RETURN(const auto weight_map, ReadWeightMap(index));
    for (const auto& [name, file] : weight_map) {
      const std::string path = (fs::path(directory) / file).string();
      ASSIGN_OR_RETURN(const SafetensorsFile* shard, File(path));
      const TensorInfo* tensor = shard->Find(name);
      if (tensor == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(index, " places tensor \"", name, "\" in ", path, ", which lacks it"));
      }
      RETURN_IF_ERROR(Add(directory, tensor));
    }
    return absl::OkStatus();
  }
};

WeightFiles::WeightFiles() : impl_(std::make_unique<Impl>()) {}
WeightFiles::~WeightFiles() = default;

absl::StatusOr<std::unique_ptr<WeightFiles>> WeightFiles::Open(const std::string& directory,
                                                               const Renames& renames) {
  std::unique_ptr<WeightFiles> weights(new WeightFiles());
  weights->impl_->renames = renames;
  std::error_code ignored;
  if (fs::exists(fs::path(directory) / kSingle, ignored)) {
    ASSIGN_OR_RETURN(const SafetensorsFile* file,
                     weights->impl_->File((fs::path(directory) / kSingle).string()));
    for (const TensorInfo& tensor : file->tensors()) {
      RETURN_IF_ERROR(weights->impl_->Add(directory, &tensor));
    }
    return weights;
  }
  if (fs::exists(fs::path(directory) / kIndex, ignored)) {
    RETURN_IF_ERROR(weights->impl_->OpenSharded(directory));
    return weights;
  }
  return absl::NotFoundError(
      absl::StrCat(directory, " holds neither ", kSingle, " nor ", kIndex,
                   fs::exists(fs::path(directory) / "pytorch_model.bin", ignored)
                       ? "; pytorch_model.bin is not read, convert it to safetensors first"
                       : ""));
}

std::string WeightFiles::Renamed(std::string_view name, const Renames& renames) {
  for (const auto& [from, to] : renames) {
    if (name.starts_with(from)) return std::string(to).append(name.substr(from.size()));
  }
  return std::string(name);
}

const TensorInfo* WeightFiles::Find(const std::string& name) const {
  const auto it = impl_->by_name.find(name);
  return it == impl_->by_name.end() ? nullptr : it->second;
}

std::vector<const TensorInfo*> WeightFiles::tensors() const { return impl_->tensors; }

absl::Status WeightFiles::Intact() const {
  for (const auto& [path, file] : impl_->files) RETURN_IF_ERROR(file->Intact());
  return absl::OkStatus();
}

}  // namespace coxswain
