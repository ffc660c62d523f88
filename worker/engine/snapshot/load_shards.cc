#include "worker/engine/snapshot/load_shards.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checked_tensors.h"
#include "common/parallel_for.h"
#include "common/plan/fp8_history.h"
#include "common/plan/optimizer_states.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "kernels/quantize/quantized_formats.h"
#include "nlohmann/json.hpp"
#include "worker/engine/memory/fp8_history.h"
#include "worker/engine/memory/ordered_reads.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/snapshot/state_tensor.h"

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

absl::StatusOr<ShardHeader> CheckHeaders(
    const plan::Plan& plan, const std::string& recipe,
    const std::vector<std::unique_ptr<SafetensorsFile>>& shards) {
  ShardHeader first;
  std::set<int64_t> ranks;
  for (size_t i = 0; i < shards.size(); ++i) {
    ASSIGN_OR_RETURN(const ShardHeader header, ReadHeader(*shards[i]));
    if (plan.trains() && header.recipe_hash != recipe) {
      return absl::FailedPreconditionError(
          absl::StrCat(shards[i]->path(), ": checkpoint of recipe ", header.recipe_hash,
                       ", this job's recipe is ", recipe));
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

// Finds the tensors that a plan wants and remembers which it was asked for.
class Finder {
 public:
  explicit Finder(const CheckpointTensors& tensors) : tensors_(tensors) {}

  absl::StatusOr<const PiecedTensor*> Values(const model::Parameter& parameter) {
    const std::string& name = parameter.name;
    ASSIGN_OR_RETURN(const PiecedTensor* tensor, Find(name));
    const bool readable = tensor->dtype == ElementType::kF32 || tensor->dtype == ElementType::kBF16;
    if (readable && tensor->shape == FileShape(parameter)) return tensor;
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint ", tensors_.directory(), ": tensor \"", name, "\" is ",
                     std::string(ElementName(tensor->dtype)), " of ", tensor->elements(),
                     " elements, wanted F32 or BF16 [", parameter.rows, ", ", parameter.cols, "]"));
  }

  absl::StatusOr<const PiecedTensor*> State(const plan::OptimizerState& state,
                                            const model::Parameter& parameter) {
    const std::string name = absl::StrCat(parameter.name, state.suffix);
    ASSIGN_OR_RETURN(const PiecedTensor* tensor, Find(name));
    const std::vector<int64_t> shape = StateShape(state, parameter);
    if (tensor->dtype == FileDType(state.storage) && tensor->shape == shape) return tensor;
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", tensors_.directory(), ": tensor \"", name, "\" is ",
        std::string(ElementName(tensor->dtype)), " [", absl::StrJoin(tensor->shape, ", "),
        "], wanted ", std::string(ElementName(FileDType(state.storage))), " [",
        absl::StrJoin(shape, ", "), "]"));
  }

  absl::StatusOr<const PiecedTensor*> Fp8History(int64_t operands) {
    ASSIGN_OR_RETURN(const PiecedTensor* tensor, Find(plan::kFp8HistoryTensor));
    const std::vector<int64_t> shape = {operands, kernels::kFp8History};
    if (tensor->dtype == ElementType::kF32 && tensor->shape == shape) return tensor;
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", tensors_.directory(), ": tensor \"", tensor->name, "\" is ",
        std::string(ElementName(tensor->dtype)), " [", absl::StrJoin(tensor->shape, ", "),
        "], wanted F32 [", absl::StrJoin(shape, ", "), "]"));
  }

  absl::Status CheckNothingLeft() const {
    for (const auto& [name, tensor] : tensors_.tensors()) {
      if (known_.count(name) != 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("checkpoint ", tensors_.directory(),
                                                     ": tensor \"", name,
                                                     "\" is not trained by this job"));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const PiecedTensor*> Find(const std::string& name) {
    const PiecedTensor* tensor = tensors_.Find(name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("checkpoint ", tensors_.directory(),
                                                     ": no shard holds tensor \"", name, "\""));
    }
    known_.insert(name);
    return tensor;
  }

  const CheckpointTensors& tensors_;
  std::set<std::string> known_;
};

// The reads that fill what this rank owns, each at most kReadElements elements.
class ReadList {
 public:
  ReadList(const CheckedTensors& checked, const ParameterStore& store)
      : checked_(checked), store_(store) {}

  void AddValues(size_t i, const PiecedTensor* tensor, plan::Range owned) {
    Cut(owned, [&](plan::Range part) {
      reads_.push_back({.bytes = part.count() * 4,
                        .read = [this, tensor, part](char* out) -> absl::Status {
                          RETURN_IF_ERROR(checked_.Check(*tensor, part.begin, part.count()));
                          return CopyRangeAsFloat(*tensor, part.begin, part.count(),
                                                  reinterpret_cast<float*>(out));
                        },
                        .use =
                            [this, i, part](const char* data) {
                              store_.UploadPart(i, part, reinterpret_cast<const float*>(data));
                            }});
    });
  }

  void AddState(const StateValues& held, const PiecedTensor* tensor) {
    Cut(held.elements, [&](plan::Range part) {
      const int64_t bytes = plan::StorageBytes(held.storage, part.count());
      char* const to = static_cast<char*>(held.data) +
                       plan::StorageBytes(held.storage, part.begin - held.elements.begin);
      reads_.push_back(
          {.bytes = bytes,
           .read = [this, tensor, part](char* out) -> absl::Status {
             RETURN_IF_ERROR(checked_.Check(*tensor, part.begin, part.count()));
             CopyRangeBytes(*tensor, part.begin, part.count(), reinterpret_cast<uint8_t*>(out));
             return absl::OkStatus();
           },
           .use = [to,
                   bytes](const char* data) { kernels::CopyMemory(to, data, bytes, nullptr); }});
    });
  }

  // Into float32 memory of the device that holds all of `range`.
  void AddWhole(float* to, const PiecedTensor* tensor, plan::Range range) {
    reads_.push_back({.bytes = range.count() * 4,
                      .read = [this, tensor, range](char* out) -> absl::Status {
                        RETURN_IF_ERROR(checked_.Check(*tensor, range.begin, range.count()));
                        return CopyRangeAsFloat(*tensor, range.begin, range.count(),
                                                reinterpret_cast<float*>(out));
                      },
                      .use =
                          [to, range](const char* data) {
                            kernels::CopyMemory(to, data, range.count() * 4, nullptr);
                          }});
  }

  const std::vector<OrderedRead>& reads() const { return reads_; }

 private:
  static constexpr int64_t kReadElements = int64_t{4} << 20;

  template <typename Add>
  static void Cut(plan::Range range, Add add) {
    for (int64_t begin = range.begin; begin < range.end; begin += kReadElements) {
      add(plan::Range{begin, std::min(begin + kReadElements, range.end)});
    }
  }

  const CheckedTensors& checked_;
  const ParameterStore& store_;
  std::vector<OrderedRead> reads_;
};

// Of a plan that trains nothing: whatever the checkpoint has of its parameters, all of an adapter.
absl::Status LoadValues(const plan::Plan& plan, const CheckedTensors& checked, Finder* finder,
                        const ParameterStore& store) {
  std::vector<float> staging;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter) && checked.tensors().Find(parameter.name) == nullptr) {
      continue;
    }
    const plan::Range loaded = store.Loaded(i);
    staging.resize(static_cast<size_t>(loaded.count()));
    ASSIGN_OR_RETURN(const PiecedTensor* tensor, finder->Values(parameter));
    RETURN_IF_ERROR(checked.Check(*tensor, loaded.begin, loaded.count()));
    RETURN_IF_ERROR(CopyRangeAsFloat(*tensor, loaded.begin, loaded.count(), staging.data()));
    store.Upload(i, staging.data());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SnapshotCounters> LoadShards(const plan::Plan& plan, const ParameterLayout& layout,
                                            const std::string& directory, const std::string& recipe,
                                            const Buffers& buffers, const Change& change) {
  ASSIGN_OR_RETURN(const CheckedTensors checked, CheckedTensors::Open(directory));
  ASSIGN_OR_RETURN(const ShardHeader header,
                   CheckHeaders(plan, recipe, checked.tensors().shards()));
  Finder finder(checked.tensors());
  const ParameterStore store(plan, layout, buffers, change);
  if (!plan.trains()) {
    RETURN_IF_ERROR(LoadValues(plan, checked, &finder, store));
    RETURN_IF_ERROR(checked.tensors().Intact());
    return SnapshotCounters{.finished_steps = 0};  // nothing goes on from there
  }
  const std::vector<plan::OptimizerState>& states = plan::OptimizerOf(plan).states;
  ReadList list(checked, store);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (const int64_t place = layout.map.places[i].correction; place >= 0) {
      ASSIGN_OR_RETURN(const PiecedTensor* correction, finder.Values(parameter));
      list.AddWhole(buffers.router_corrections + place, correction, {0, parameter.elements()});
    }
    if (!parameter.trainable()) continue;
    ASSIGN_OR_RETURN(const PiecedTensor* values, finder.Values(parameter));
    list.AddValues(i, values, layout.owned[i]);
    const std::vector<StateValues> held = store.States(i);
    for (size_t s = 0; s < states.size(); ++s) {
      if (held[s].data == nullptr) continue;
      ASSIGN_OR_RETURN(const PiecedTensor* state, finder.State(states[s], parameter));
      list.AddState(held[s], state);
    }
  }
  if (const int64_t operands = plan::Fp8Operands(plan); operands > 0) {
    ASSIGN_OR_RETURN(const PiecedTensor* history, finder.Fp8History(operands));
    list.AddWhole(buffers.fp8_history, history, {0, operands * kernels::kFp8History});
  }
  RETURN_IF_ERROR(finder.CheckNothingLeft());
  RETURN_IF_ERROR(RunOrderedReads(list.reads(), FileThreads()));
  ReadFp8History(plan, buffers);
  RETURN_IF_ERROR(checked.tensors().Intact());
  return header.counters;
}

}  // namespace coxswain::engine
