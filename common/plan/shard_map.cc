#include "common/plan/shard_map.h"
#include "common/plan/precision.h"

#include <algorithm>
#include <array>

namespace coxswain::plan {
namespace {

constexpr size_t kKinds = 3;

FlatKind KindOf(const Plan& plan, const model::Parameter& parameter) {
  if (!parameter.trainable()) return FlatKind::kFrozen;
  return HasBfloat16Gradient(plan, parameter) ? FlatKind::kBfloat16Gradient
                                              : FlatKind::kFloat32Gradient;
}

bool IsBlock(const Plan& plan, int32_t unit) { return unit >= 1 && unit <= plan.model.num_layers; }

int64_t Take(int64_t* row, int64_t elements) {
  const int64_t first = *row;
  *row += elements;
  return first;
}

// What the flats of one unit have taken of each slot so far.
struct SlotFill {
  int64_t weights = 0, gradients = 0, bf16_gradients = 0;
};

void PlaceWeights(const Plan& plan, Flat* flat, SlotFill* slot, ShardMap* map) {
  const bool slotted = plan.zero == 3 && IsBlock(plan, flat->unit);
  if (slotted) flat->weight_slot = Take(&slot->weights, flat->elements);
  flat->weights = Take(&map->weights, slotted ? flat->owned : flat->elements);
}

void PlaceGradient(const Plan& plan, Flat* flat, SlotFill* slot, ShardMap* map) {
  const bool bf16 = flat->kind == FlatKind::kBfloat16Gradient;
  if (plan.zero >= 2 && IsBlock(plan, flat->unit)) {
    flat->gradient_slot = Take(bf16 ? &slot->bf16_gradients : &slot->gradients, flat->elements);
    flat->gradient = Take(&map->gradients, flat->owned);
  } else {
    flat->gradient = Take(bf16 ? &map->bf16_gradients : &map->gradients, flat->elements);
  }
}

}  // namespace

ShardMap::ShardMap(const Plan& plan) : shard(plan.shard), places(plan.parameters.size()) {
  std::vector<std::array<Flat, kKinds>> units(static_cast<size_t>(plan.model.num_layers + 2));
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    Flat& flat =
        units[static_cast<size_t>(parameter.unit)][static_cast<size_t>(KindOf(plan, parameter))];
    flat.parameters.push_back(i);
    places[i].offset = Take(&flat.elements, parameter.elements());
  }
  const int64_t alignment = int64_t{shard} * kShardAlignment;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    SlotFill slot;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      Flat& flat = units[unit][kind];
      if (flat.parameters.empty()) continue;
      flat.unit = static_cast<int32_t>(unit);
      flat.kind = static_cast<FlatKind>(kind);
      flat.elements = (flat.elements + alignment - 1) / alignment * alignment;
      flat.owned = flat.elements / shard;
      for (const size_t i : flat.parameters) places[i].flat = flats.size();
      PlaceWeights(plan, &flat, &slot, this);
      if (flat.trained()) {
        PlaceGradient(plan, &flat, &slot, this);
        flat.state = Take(&state, flat.owned);
        // Tensors of a flat are alike: only adapters train beside a frozen base.
        if (HasMaster(plan, plan.parameters[flat.parameters.front()])) {
          flat.master = Take(&masters, flat.owned);
        }
      }
      flats.push_back(std::move(flat));
    }
    weight_slot = std::max(weight_slot, slot.weights);
    gradient_slot = std::max(gradient_slot, slot.gradients);
    bf16_gradient_slot = std::max(bf16_gradient_slot, slot.bf16_gradients);
  }
}

Range ShardMap::Owned(const Plan& plan, size_t i, int32_t shard_rank) const {
  const Flat& flat = flats[places[i].flat];
  const int64_t first = shard_rank * flat.owned - places[i].offset;
  const int64_t elements = plan.parameters[i].elements();
  const int64_t begin = std::clamp<int64_t>(first, 0, elements);
  return {begin, std::clamp(first + flat.owned, begin, elements)};
}

Range SavedBy(const Plan& plan, Range owned, int32_t replica) {
  const auto cut = [&](int64_t part) {
    return owned.begin + owned.count() * part / plan.replicate;
  };
  return {cut(replica), cut(replica + 1)};
}

}  // namespace coxswain::plan
