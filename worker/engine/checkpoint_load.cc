#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "worker/engine/parameter_store.h"
#include "worker/engine/snapshot.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

struct ShardHeader {
  std::string recipe_hash;  // hex
  SnapshotCounters counters;
  int64_t rank = 0, world_size = 0;
};

absl::StatusOr<ShardHeader> ReadHeader(const SafetensorsFile& file) {
  const auto found = file.metadata().find("coxswain");
  const nlohmann::json json = found == file.metadata().end()
                                  ? nlohmann::json()
                                  : nlohmann::json::parse(found->second, nullptr, false);
  const auto is_integer = [&json](const char* key) {
    return json.contains(key) && json[key].is_number_integer();
  };
  if (!json.is_object() || !json.contains("recipe_hash") || !json["recipe_hash"].is_string() ||
      !is_integer("finished_steps") || !is_integer("applied_updates") || !is_integer("rank") ||
      !is_integer("world_size")) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"coxswain\" is not that of a checkpoint shard"));
  }
  ShardHeader header;
  header.recipe_hash = json["recipe_hash"].get<std::string>();
  header.counters.finished_steps = json["finished_steps"].get<int64_t>();
  header.counters.applied_updates = json["applied_updates"].get<int64_t>();
  header.rank = json["rank"].get<int64_t>();
  header.world_size = json["world_size"].get<int64_t>();
  return header;
}

absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> OpenShards(
    const std::string& directory) {
  std::set<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, "rank-") && absl::EndsWith(name, ".safetensors")) {
      paths.insert(entry->path().string());
    }
  }
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": no rank-*.safetensors here",
                     error ? absl::StrCat(" (", error.message(), ")") : std::string()));
  }
  std::vector<std::unique_ptr<SafetensorsFile>> shards;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
    shards.push_back(std::move(file));
  }
  return shards;
}

absl::StatusOr<ShardHeader> CheckHeaders(
    const plan::Plan& plan, const std::vector<std::unique_ptr<SafetensorsFile>>& shards) {
  ShardHeader first;
  std::set<int64_t> ranks;
  for (size_t i = 0; i < shards.size(); ++i) {
    ASSIGN_OR_RETURN(const ShardHeader header, ReadHeader(*shards[i]));
    if (header.recipe_hash != ToHex(plan.recipe_hash)) {
      return absl::FailedPreconditionError(
          absl::StrCat(shards[i]->path(), ": checkpoint of recipe ", header.recipe_hash,
                       ", this job's recipe is ", ToHex(plan.recipe_hash)));
    }
    if (i == 0) first = header;
    ranks.insert(header.rank);
    if (header.counters.finished_steps == first.counters.finished_steps &&
        header.counters.applied_updates == first.counters.applied_updates &&
        header.world_size == first.world_size) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        shards[i]->path(), ": finished_steps ", header.counters.finished_steps,
        ", applied_updates ", header.counters.applied_updates, ", world_size ", header.world_size,
        "; ", shards[0]->path(), " has ", first.counters.finished_steps, ", ",
        first.counters.applied_updates, ", ", first.world_size));
  }
  if (static_cast<int64_t>(ranks.size()) != first.world_size || ranks.size() != shards.size() ||
      *ranks.begin() != 0 || *ranks.rbegin() != first.world_size - 1) {
    return absl::InvalidArgumentError(absl::StrCat(shards[0]->path(), ": written by ",
                                                   first.world_size, " ranks, found ",
                                                   shards.size(), " shards of them"));
  }
  return first;
}

class ShardSet {
 public:
  absl::Status Index(const std::vector<std::unique_ptr<SafetensorsFile>>& shards) {
    for (const auto& shard : shards) {
      for (const TensorInfo& tensor : shard->tensors()) {
        if (tensors_.emplace(tensor.name, std::pair{&tensor, shard->path()}).second) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(shard->path(), ": tensor \"", tensor.name, "\" is in another shard too"));
      }
    }
    return absl::OkStatus();
  }

  // The tensor `name`, which has the shape of `parameter`.
  absl::StatusOr<const TensorInfo*> Take(const std::string& name,
                                         const plan::Parameter& parameter) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint: no shard holds tensor \"", name, "\""));
    }
    const auto& [tensor, path] = found->second;
    const bool readable = tensor->dtype == DType::kF32 || tensor->dtype == DType::kBF16;
    if (!readable || tensor->shape != FileShape(parameter)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor \"", name, "\" is ", std::string(DTypeName(tensor->dtype)),
                       " of ", tensor->elements(), " elements, wanted F32 or BF16 [",
                       parameter.rows, ", ", parameter.cols, "]"));
    }
    const TensorInfo* taken = tensor;
    tensors_.erase(found);
    return taken;
  }

  absl::Status CheckEmpty() const {
    if (tensors_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(tensors_.begin()->second.second, ": tensor \"",
                                                   tensors_.begin()->first,
                                                   "\" is not trained by this job"));
  }

 private:
  std::map<std::string, std::pair<const TensorInfo*, std::string>> tensors_;
};

}  // namespace

absl::StatusOr<SnapshotCounters> LoadShards(const plan::Plan& plan, const ParameterLayout& layout,
                                            const std::string& directory, const Buffers& buffers) {
  ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<SafetensorsFile>> shards,
                   OpenShards(directory));
  ASSIGN_OR_RETURN(const ShardHeader header, CheckHeaders(plan, shards));
  ShardSet set;
  RETURN_IF_ERROR(set.Index(shards));
  const ParameterStore store(plan, layout, buffers);
  std::vector<float> staging;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable()) continue;
    staging.resize(static_cast<size_t>(parameter.elements()));
    const auto read = [&](const char* suffix) -> absl::Status {
      ASSIGN_OR_RETURN(const TensorInfo* tensor,
                       set.Take(absl::StrCat(parameter.name, suffix), parameter));
      return CopyAsFloat(*tensor, staging.data());
    };
    const int64_t offset = layout.state_offset[i], bytes = 4 * parameter.elements();
    RETURN_IF_ERROR(read(""));
    store.Upload(i, staging.data());
    RETURN_IF_ERROR(read(".m"));
    kernels::CopyMemory(buffers.adam_m + offset, staging.data(), bytes, nullptr);
    RETURN_IF_ERROR(read(".v"));
    kernels::CopyMemory(buffers.adam_v + offset, staging.data(), bytes, nullptr);
  }
  RETURN_IF_ERROR(set.CheckEmpty());
  return header.counters;
}

}  // namespace coxswain::engine
