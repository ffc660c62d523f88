#include "common/plan/shard_map.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "common/plan/expert_ranges.h"
#include "common/plan/fp8_history.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/routers.h"

namespace coxswain::plan {
namespace {

bool IsBlock(const Plan& plan, int32_t unit) { return unit >= 1 && unit <= plan.model.num_layers; }

// Takes the next `size` of a row and returns where they begin.
int64_t Take(int64_t* row, int64_t size) {
  const int64_t first = *row;
  *row += size;
  return first;
}

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The place of a flat among those of its unit.
int Turn(const Flat& flat) {
  if (!flat.trained()) return 2;
  return flat.storage.gradient == Storage::kBfloat16 ? 0 : 1;
}

// By parameter: whether it is a weight that ranks gather as codes.
std::vector<bool> AreCoded(const Plan& plan) {
  std::vector<bool> coded(plan.parameters.size());
  if (!GathersCodes(plan)) return coded;
  std::set<std::pair<int64_t, int32_t>> weights;
  VisitFp8Linears(plan, [&weights](const model::LinearOp& linear, int64_t layer) {
    for (const model::LinearMember& member : linear.members) weights.insert({layer, member.weight});
  });
  for (size_t i = 0; i < coded.size(); ++i) {
    const model::Parameter& p = plan.parameters[i];
    coded[i] = p.part == model::Part::kBase && weights.count({p.layer, p.tensor}) != 0;
  }
  return coded;
}

// The flats of every unit, their tensors in the order of the table.
std::vector<std::vector<Flat>> FlatsOfUnits(const Plan& plan) {
  const std::vector<bool> coded = AreCoded(plan);
  std::vector<std::vector<Flat>> units(static_cast<size_t>(plan.model.num_layers + 2));
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    const ParameterStorage storage = StorageOf(plan, parameter);
    const bool in_ranges = InRanges(plan, parameter);
    std::vector<Flat>& flats = units[static_cast<size_t>(parameter.unit)];
    auto flat = std::find_if(flats.begin(), flats.end(), [&](const Flat& one) {
      return one.storage == storage && one.in_ranges == in_ranges && one.coded == coded[i];
    });
    if (flat == flats.end()) {
      flat = flats.insert(flat, Flat{});
      flat->unit = parameter.unit;
      flat->storage = storage;
      flat->in_ranges = in_ranges;
      flat->coded = coded[i];
    }
    flat->parameters.push_back(i);
  }
  for (std::vector<Flat>& flats : units) {
    std::stable_sort(flats.begin(), flats.end(),
                     [](const Flat& a, const Flat& b) { return Turn(a) < Turn(b); });
  }
  return units;
}

// What the flats of one unit have taken of each slot so far.
struct SlotFill {
  int64_t weights = 0, gradients = 0, packed = 0;
};

int64_t Aligned(int64_t bytes) {
  constexpr int64_t kBytes = 2 * kShardAlignment;
  return (bytes + kBytes - 1) / kBytes * kBytes;
}

// Codes and scales of quantised weights, and the slot of what is computed from them ahead of use.
void PlaceQuantized(const Plan& plan, Flat* flat, SlotFill* slot, ShardMap* map) {
  const Storage storage = flat->storage.weights;
  for (const size_t i : flat->parameters) {
    const model::Parameter& parameter = plan.parameters[i];
    const int64_t blocks = (parameter.elements() + kShardAlignment - 1) / kShardAlignment;
    map->places[i].packed = Take(&flat->packed, blocks * kShardAlignment);
    map->places[i].constants =
        Take(&map->weight_scales, ScaleConstants(storage, parameter.rows, parameter.cols));
  }
  const int64_t alignment = int64_t{plan.shard} * kShardAlignment;
  flat->packed = (flat->packed + alignment - 1) / alignment * alignment;
  const auto bytes = [&](int64_t elements) {
    return Aligned(flat->ScaleOffset(elements) + ScaleBytes(storage, elements));
  };
  if (!flat->in_ranges) {
    flat->weight_slot = Take(&slot->weights, StorageBytes(ComputeStorage(plan), flat->elements));
  }
  flat->weights =
      Take(&map->weights, bytes(plan.zero == 3 ? flat->packed / plan.shard : flat->packed));
  if (plan.zero == 3) flat->packed_slot = Take(&slot->packed, bytes(flat->packed));
}

void PlaceWeights(const Plan& plan, Flat* flat, SlotFill* slot, ShardMap* map) {
  const Storage storage = flat->storage.weights;
  if (IsQuantized(storage)) return PlaceQuantized(plan, flat, slot, map);
  const bool slotted = plan.zero == 3 && IsBlock(plan, flat->unit);
  // Answers to prompts read values.
  const int64_t whole = flat->coded && !plan.generates() ? Aligned(flat->elements)
                                                         : StorageBytes(storage, flat->elements);
  if (slotted) flat->weight_slot = Take(&slot->weights, whole);
  flat->weights =
      Take(&map->weights, StorageBytes(storage, slotted ? flat->owned : flat->elements));
}

void PlaceGradient(const Plan& plan, Flat* flat, SlotFill* slot, ShardMap* map) {
  const int64_t whole = StorageBytes(*flat->storage.gradient, flat->elements);
  if (HasGradientSlot(plan, flat->unit)) {
    flat->gradient_slot = Take(&slot->gradients, whole);
    flat->gradient = Take(&map->gradients, StorageBytes(flat->reduced_gradient(), flat->owned));
  } else {
    flat->gradient = Take(&map->gradients, whole);
    const bool rounded = flat->storage.gradient == Storage::kBfloat16;
    if (rounded && plan.gradient_sum == GradientSum::kCompensated) {
      flat->companion = Take(&map->companions, whole);
    }
  }
}

// Places the tensors of a flat, in order.
void PlaceTensors(const Plan& plan, const std::vector<bool>& in_blocks, size_t index, Flat* flat,
                  std::vector<ParameterPlace>* places) {
  const int64_t block = flat->trained() ? OptimizerOf(plan).block : 1;
  for (const size_t i : flat->parameters) {
    const int64_t elements = plan.parameters[i].elements();
    if (!ContinuesPack(plan, i)) flat->elements = RoundUp(flat->elements, block);
    ParameterPlace& place = (*places)[i];
    place = {.flat = index, .offset = Take(&flat->elements, elements), .in_blocks = in_blocks[i]};
    flat->has_blocks = flat->has_blocks || in_blocks[i];
    if (!in_blocks[i]) place.state_offset = Take(&flat->not_in_blocks, RoundUp(elements, 4));
  }
  const int64_t cut = std::lcm(block, kShardAlignment);
  flat->elements = RoundUp(flat->elements, plan.shard * cut);
  flat->owned = flat->elements / plan.shard;
}

void PlaceCorrections(const Plan& plan, ShardMap* map) {
  const std::vector<Router> routers = RoutersOf(plan);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!IsMovedCorrection(plan, parameter)) continue;
    const auto router = std::find_if(routers.begin(), routers.end(), [&](const Router& one) {
      return one.layer == parameter.layer && one.correction == parameter.tensor;
    });
    if (router == routers.end()) continue;
    map->places[i].correction = router->moved;
    map->corrections += StorageBytes(Storage::kFloat32, parameter.elements());
  }
}

// Elements that a rank has room for.
int64_t StateElements(const OptimizerState& state, const Flat& flat) {
  switch (state.of) {
    case StateOf::kAll:
      return state.Elements(flat.owned);
    case StateOf::kInBlocks:
      return flat.has_blocks ? state.Elements(flat.owned) : 0;
    case StateOf::kNotInBlocks:
      return state.Elements(flat.not_in_blocks);
  }
  return 0;
}

}  // namespace

bool HasGradientSlot(const Plan& plan, int32_t unit) {
  return plan.zero >= 2 && IsBlock(plan, unit);
}

int64_t Flat::ScaleOffset(int64_t elements) const {
  return Aligned(StorageBytes(storage.weights, elements));
}

ShardMap::ShardMap(const Plan& plan) : shard(plan.shard), places(plan.parameters.size()) {
  const Optimizer& optimizer = OptimizerOf(plan);
  states.resize(optimizer.states.size());
  const std::vector<bool> in_blocks = InBlocks(plan);
  for (std::vector<Flat>& unit : FlatsOfUnits(plan)) {
    SlotFill slot;
    for (Flat& flat : unit) {
      PlaceTensors(plan, in_blocks, flats.size(), &flat, &places);
      PlaceWeights(plan, &flat, &slot, this);
      if (flat.trained()) {
        PlaceGradient(plan, &flat, &slot, this);
        for (size_t s = 0; s < optimizer.states.size(); ++s) {
          const OptimizerState& state = optimizer.states[s];
          const int64_t bytes = StorageBytes(state.storage, StateElements(state, flat));
          flat.states.push_back(Take(&states[s], bytes));
        }
      }
      if (flat.storage.master.has_value()) {
        flat.master = Take(&masters, StorageBytes(*flat.storage.master, flat.owned));
      }
      flats.push_back(std::move(flat));
    }
    weight_slot = std::max(weight_slot, slot.weights);
    gradient_slot = std::max(gradient_slot, slot.gradients);
    packed_slot = std::max(packed_slot, slot.packed);
  }
  PlaceCorrections(plan, this);
  fp8_history = Fp8HistoryBytes(plan);
}

Range ShardMap::Owned(const Plan& plan, size_t i, int32_t shard_rank) const {
  const Flat& flat = flats[places[i].flat];
  const int64_t first = shard_rank * flat.owned - places[i].offset;
  const int64_t elements = plan.parameters[i].elements();
  const int64_t begin = std::clamp<int64_t>(first, 0, elements);
  return {begin, std::clamp(first + flat.owned, begin, elements)};
}

std::optional<StatePlace> ShardMap::State(const Plan& plan, size_t i, size_t s, Range range,
                                          int32_t shard_rank) const {
  const OptimizerState& state = OptimizerOf(plan).states[s];
  const ParameterPlace& place = places[i];
  const Flat& flat = flats[place.flat];
  if (!state.IsOf(place.in_blocks)) return std::nullopt;
  const int64_t first = state.of == StateOf::kNotInBlocks
                            ? place.state_offset + range.begin
                            : place.offset + range.begin - shard_rank * flat.owned;
  const int64_t begin = range.begin / state.block;
  return StatePlace{{begin, range.count() == 0 ? begin : state.Elements(range.end)},
                    flat.states[s] + StorageBytes(state.storage, first / state.block)};
}

Range SavedBy(const Plan& plan, Range owned, int64_t block, int32_t replica) {
  const auto cut = [&](int64_t part) {
    if (part == plan.replicate) return owned.end;
    return owned.begin + owned.count() * part / plan.replicate / block * block;
  };
  return {cut(replica), cut(replica + 1)};
}

}  // namespace coxswain::plan
