#include "common/files/weights/weight_files.h"

#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/read_file.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/torch/torch_file.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

// The better first.
constexpr std::array<std::string_view, 4> kWeights = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};

bool IsIndex(std::string_view name) { return name.ends_with(".index.json"); }

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

using WeightFile = std::variant<std::unique_ptr<SafetensorsFile>, std::unique_ptr<TorchFile>>;

absl::StatusOr<WeightFile> OpenWeightFile(const std::string& path) {
  if (path.ends_with(".bin")) return TorchFile::Open(path);
  return SafetensorsFile::Open(path);
}

}  // namespace

struct WeightFiles::Impl {
  Renames renames;
  std::map<std::string, WeightFile> files;
  std::vector<const TensorInfo*> tensors;
  std::unordered_map<std::string, const TensorInfo*> by_name;
  std::unordered_map<const TensorInfo*, const std::string*> paths;

  absl::Status Open(const std::string& path) {
    if (files.contains(path)) return absl::OkStatus();
    ASSIGN_OR_RETURN(WeightFile file, OpenWeightFile(path));
    files.emplace(path, std::move(file));
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& directory, const std::string& path,
                   const TensorInfo* tensor) {
    tensors.push_back(tensor);
    paths.emplace(tensor, &files.find(path)->first);
    const auto [there, added] = by_name.emplace(Renamed(tensor->name, renames), tensor);
    if (added) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": \"", there->second->name, "\" and \"", tensor->name,
                     "\" are two names of one tensor; remove the one that is out of date"));
  }

  absl::Status OpenSingle(const std::string& directory, const std::string& path) {
    RETURN_IF_ERROR(Open(path));
    const std::vector<TensorInfo>& all = std::visit(
        [](const auto& file) -> const std::vector<TensorInfo>& { return file->tensors(); },
        files.at(path));
    for (const TensorInfo& tensor : all) RETURN_IF_ERROR(Add(directory, path, &tensor));
    return absl::OkStatus();
  }

  absl::Status OpenSharded(const std::string& directory, const std::string& index) {
    ASSIGN_OR_RETURN(const auto weight_map, ReadWeightMap(index));
    for (const auto& [name, file] : weight_map) {
      const std::string path = (fs::path(directory) / file).string();
      RETURN_IF_ERROR(Open(path));
      const TensorInfo* tensor = std::visit(
          [&name = name](const auto& shard) { return shard->Find(name); }, files.at(path));
      if (tensor == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(index, " places tensor \"", name, "\" in ", path, ", which lacks it"));
      }
      RETURN_IF_ERROR(Add(directory, path, tensor));
    }
    return absl::OkStatus();
  }
};

WeightFiles::WeightFiles() : impl_(std::make_unique<Impl>()) {}
WeightFiles::~WeightFiles() = default;

absl::StatusOr<std::string> FindWeights(const std::string& directory) {
  for (const std::string_view name : kWeights) {
    std::error_code ignored;
    const fs::path path = fs::path(directory) / name;
    if (fs::exists(path, ignored)) return path.string();
  }
  return absl::NotFoundError(absl::StrCat(
      directory, " holds no weights: none of ",
      absl::StrJoin(kWeights, ", ",
                    [](std::string* out, std::string_view name) { out->append(name); })));
}

absl::StatusOr<std::vector<std::string>> WeightPaths(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string found, FindWeights(directory));
  if (!IsIndex(found)) return std::vector<std::string>{found};
  ASSIGN_OR_RETURN(const auto weight_map, ReadWeightMap(found));
  std::set<std::string> paths;
  for (const auto& [name, file] : weight_map) {
    paths.insert((fs::path(directory) / file).string());
  }
  return std::vector<std::string>(paths.begin(), paths.end());
}

absl::StatusOr<std::unique_ptr<WeightFiles>> WeightFiles::Open(const std::string& directory,
                                                               const Renames& renames) {
  ASSIGN_OR_RETURN(const std::string found, FindWeights(directory));
  std::unique_ptr<WeightFiles> weights(new WeightFiles());
  weights->impl_->renames = renames;
  RETURN_IF_ERROR(IsIndex(found) ? weights->impl_->OpenSharded(directory, found)
                                 : weights->impl_->OpenSingle(directory, found));
  return weights;
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

const std::string& WeightFiles::PathOf(const TensorInfo& tensor) const {
  return *impl_->paths.at(&tensor);
}

absl::Status WeightFiles::Intact() const {
  for (const auto& [path, file] : impl_->files) {
    RETURN_IF_ERROR(std::visit([](const auto& open) { return open->Intact(); }, file));
  }
  return absl::OkStatus();
}

}  // namespace coxswain
