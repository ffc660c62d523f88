#include "worker/engine/snapshot/write_shard.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/element_type.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/files/safetensors/safetensors_blocks.h"
#include "common/parallel_for.h"
#include "common/plan/fp8_history.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/snapshot_map.h"
#include "common/status_macros.h"
#include "kernels/quantize/quantized_formats.h"
#include "nlohmann/json.hpp"
#include "worker/engine/commands/work_count.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/snapshot/state_tensor.h"

namespace coxswain::engine {
namespace {

// What this rank writes of one tensor of a checkpoint.
struct Piece {
  std::vector<int64_t> shape;  // of the whole tensor
  plan::Range range;           // elements of it
  bool whole() const {
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    return range.count() == elements;
  }
};

TensorInMemory InMemory(std::string name, const Piece& piece, ElementType dtype,
                        const char* values) {
  const std::vector<int64_t> shape =
      piece.whole() ? piece.shape : std::vector<int64_t>{piece.range.count()};
  return {.form = {std::move(name), dtype, shape}, .data = values};
}

// Format: common/checkpoint/checkpoint_tensors.h.
std::string Metadata(const plan::Plan& plan, const SnapshotCounters& counters, int rank,
                     const nlohmann::json& pieces) {
  nlohmann::json json{{"recipe_hash", ToHex(plan.recipe_hash)},
                      {"finished_steps", counters.finished_steps},
                      {"applied_updates", counters.applied_updates},
                      {"rank", rank},
                      {"world_size", plan.world_size()}};
  if (!pieces.empty()) json["pieces"] = pieces;
  return json.dump();
}

// Adds value and states of a piece, which lie in the snapshot.
class ShardContents {
 public:
  ShardContents(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers)
      : plan_(plan),
        layout_(layout),
        states_(plan::OptimizerOf(plan).states),
        snapshot_(buffers.snapshot),
        at_(layout.map) {}

  void Add(size_t i, plan::Range range) {
    const model::Parameter& parameter = plan_.parameters[i];
    const size_t f = layout_.map.places[i].flat;
    const plan::Storage storage = layout_.map.flats[f].storage.trained_values();
    const int64_t first = layout_.OffsetInOwned(i) + range.begin - layout_.owned[i].begin;
    Put(parameter.name, {FileShape(parameter), range}, storage,
        snapshot_ + at_.values[f] + plan::StorageBytes(storage, first));
    for (size_t s = 0; s < states_.size(); ++s) {
      const auto place = layout_.map.State(plan_, i, s, range, layout_.place.shard);
      if (!place.has_value()) continue;
      Put(absl::StrCat(parameter.name, states_[s].suffix),
          {StateShape(states_[s], parameter), place->elements}, states_[s].storage,
          snapshot_ + at_.states[s] + place->offset);
    }
  }

  // Every rank has all of it.
  void AddCorrection(size_t i) {
    const model::Parameter& parameter = plan_.parameters[i];
    Put(parameter.name, {FileShape(parameter), {0, parameter.elements()}}, plan::Storage::kFloat32,
        snapshot_ + at_.corrections +
            plan::StorageBytes(plan::Storage::kFloat32, layout_.map.places[i].correction));
  }

  // Likewise.
  void AddFp8History() {
    const int64_t operands = plan::Fp8Operands(plan_);
    if (operands == 0) return;
    Put(plan::kFp8HistoryTensor,
        {{operands, kernels::kFp8History}, {0, operands * kernels::kFp8History}},
        plan::Storage::kFloat32, snapshot_ + at_.fp8_history);
  }

  const std::vector<TensorInMemory>& tensors() const { return tensors_; }
  const nlohmann::json& pieces() const { return pieces_; }

 private:
  void Put(std::string name, const Piece& piece, plan::Storage storage, const char* values) {
    if (!piece.whole()) {
      pieces_[name] = {{"begin", piece.range.begin}, {"shape", piece.shape}};
    }
    tensors_.push_back(InMemory(std::move(name), piece, FileDType(storage), values));
  }

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const std::vector<plan::OptimizerState>& states_;
  const char* const snapshot_;
  const plan::SnapshotMap at_;
  std::vector<TensorInMemory> tensors_;
  nlohmann::json pieces_ = nlohmann::json::object();
};

}  // namespace

absl::StatusOr<ShardFile> WriteShard(const plan::Plan& plan, const ParameterLayout& layout,
                                     const SnapshotCounters& counters, const Buffers& buffers,
                                     const ShardPlace& place) {
  ShardContents contents(plan, layout, buffers);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (place.rank == 0 && layout.map.places[i].correction >= 0) contents.AddCorrection(i);
    if (!plan.parameters[i].trainable()) continue;
    const int64_t block = layout.map.places[i].in_blocks ? plan::OptimizerOf(plan).block : 1;
    const plan::Range range = plan::SavedBy(plan, layout.owned[i], block, layout.place.replica);
    if (range.count() > 0) contents.Add(i, range);
  }
  if (place.rank == 0) contents.AddFp8History();
  const std::string name = absl::StrCat("rank-", place.rank, ".safetensors");
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"coxswain", Metadata(plan, counters, place.rank, contents.pieces())}};
  const auto check = [&place]() -> absl::Status {
    CountSaved();
    if (place.cancelled && place.cancelled()) return absl::CancelledError("SaveShard");
    return fault::Reach(fault::Point::kShardBlock, {.rank = place.rank});
  };
  ASSIGN_OR_RETURN(
      BlockDigests blocks,
      WriteSafetensorsBlocks(absl::StrCat(place.directory, "/", name), contents.tensors(), metadata,
                             {.threads = FileThreads(), .check = check}));
  return ShardFile{name, std::move(blocks)};
}

}  // namespace coxswain::engine
