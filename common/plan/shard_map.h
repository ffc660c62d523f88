// Who holds what of the parameters: units, their flats and the range of each flat that a rank owns.
// A pure function of the plan; the planner sizes buffers by it, the engine lays out by it.
//
// A unit is the embedding, a block, or final norm and head (Parameter::unit). Its tensors lie in as
// many flats as they have storages (storage.h), each the unit of one collective: trained ones whose
// gradient is bfloat16, other trained ones, frozen ones; inside a flat they keep the order of the
// table, without gaps.
// Quantised weights are a flat by themselves, which no optimizer sees: it lies in a slot whenever a
// sweep reads it, as all flats of blocks do under ZeRO 3, dequantised from "weights". Experts that
// are dequantised in ranges (expert_ranges.h) are another, which is never in a slot.
// Weights that ranks gather as codes (fp8_gather.h) are flats by themselves too.
// A flat is padded to a multiple of shard x kShardAlignment elements, and rank r of a shard group
// owns elements [r n / shard, (r + 1) n / shard) of it, wherever that cuts a tensor: it alone holds
// masters and optimizer states of them and updates them.
// Where the optimizer has blocks (optimizer_states.h), trained flats are padded to a multiple of
// shard x block elements, and a tensor that is no part of a whole begins at a multiple of the
// block, behind a gap where it must: so no cut lies inside a block of a tensor. States of tensors
// that are not in blocks are few: every rank has room for all of a flat's and uses its own part.
// Rows of the buffer table hold flats in order; the order of the flats is that of the units.
//
// Goals: one contiguous buffer per collective, equal ranges, no divisibility rule for any extent.
// Non-goals: ranges by rows (a tensor of few rows would not divide), optimizers that need whole
// matrices.
// Source: Zhao et al., "PyTorch FSDP", 2023 (flat parameters); Rajbhandari et al., "ZeRO", 2020.
#ifndef COXSWAIN_COMMON_PLAN_SHARD_MAP_H_
#define COXSWAIN_COMMON_PLAN_SHARD_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/storage.h"

namespace coxswain::plan {

// Every owned range begins at a multiple of so many elements of its flat: 128 bytes of bfloat16.
inline constexpr int64_t kShardAlignment = 64;

inline constexpr int32_t kEmbeddingUnit = 0;

// Whether the gradients of a unit are those of one micro-step, in a slot, and summed in float32.
bool HasGradientSlot(const Plan& plan, int32_t unit);

// Offsets are bytes into the row named in the comment; -1: not in one.
struct Flat {
  int32_t unit = 0;
  ParameterStorage storage;        // of each of its tensors
  std::vector<size_t> parameters;  // indices into the plan's table
  int64_t elements = 0;            // padded
  int64_t owned = 0;               // elements / shard
  // "weights": all of it, or the owned range alone when a slot holds all of it during a sweep.
  int64_t weights = 0;
  int64_t weight_slot = -1;  // "weight_slots", inside its slot
  // Quantised: `weights` is where its codes are, then their scales, of `packed` elements: each
  // tensor begins at a multiple of kShardAlignment there. Under ZeRO 3 of packed / shard of them,
  // and "packed_slot" holds all of one unit while they are dequantised; PackedSlots() of them.
  int64_t packed = 0;  // padded; 0: not quantised
  int64_t packed_slot = -1;
  bool in_ranges = false;  // of experts that are dequantised in ranges
  // Of weights that ranks gather as codes: its slot holds these, a byte each, during a sweep with
  // products in FP8; the values only while prompts are answered.
  bool coded = false;
  // "gradients": where backward accumulates. Slotted: the owned range alone, always float32.
  int64_t gradient = -1;
  int64_t gradient_slot = -1;  // "gradient_slots", inside either slot
  int64_t companion = -1;      // "gradient_companions": of `gradient`, where sums are compensated
  int64_t master = -1;         // "master": owned range
  // By state of the optimizer (optimizer_states.h), in its row. Empty: frozen.
  std::vector<int64_t> states;
  bool has_blocks = false;    // of tensors whose states are in blocks
  int64_t not_in_blocks = 0;  // elements of the other tensors, each rounded up to 16 bytes

  bool trained() const { return storage.trained(); }
  bool weights_slotted() const { return weight_slot >= 0; }
  bool quantized() const { return packed > 0; }
  // From the codes of `elements` packed ones to their scales.
  int64_t ScaleOffset(int64_t elements) const;
  bool gradient_slotted() const { return gradient_slot >= 0; }
  // Of the owned range of a gradient, summed over micro-steps and ranks.
  Storage reduced_gradient() const {
    return gradient_slotted() ? Storage::kFloat32 : *storage.gradient;
  }
};

struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Where a parameter lies.
struct ParameterPlace {
  size_t flat = 0;        // index into ShardMap::flats
  int64_t offset = 0;     // of its first element in the flat
  int64_t packed = 0;     // the same among the packed elements of a quantised one
  int64_t constants = 0;  // floats into "weight_scales": those that every rank holds of it
  bool in_blocks = false;
  int64_t state_offset = 0;  // not in blocks: of its first element among such tensors of the flat
  int64_t correction = -1;   // IsMovedCorrection: floats into "router.corrections"; -1: it is none
};

// What a rank holds of a state of a tensor.
struct StatePlace {
  Range elements;      // of the state of the whole tensor
  int64_t offset = 0;  // bytes into the state's row
};

struct ShardMap {
  // `plan` has passed CheckPlan.
  explicit ShardMap(const Plan& plan);

  int32_t shard = 1;
  std::vector<Flat> flats;             // none is empty
  std::vector<ParameterPlace> places;  // by index into the plan's table

  // Bytes of the rows. Slot rows: of one slot.
  int64_t weights = 0, weight_slot = 0;
  int64_t packed_slot = 0, weight_scales = 0;
  int64_t gradients = 0, gradient_slot = 0, companions = 0;
  int64_t masters = 0;
  std::vector<int64_t> states;  // by state of the optimizer
  int64_t corrections = 0;      // "router.corrections"
  int64_t fp8_history = 0;      // "fp8.history"

  // The elements of parameter `i` that rank `shard_rank` of a shard group owns; there may be none.
  Range Owned(const Plan& plan, size_t i, int32_t shard_rank) const;

  // State `s` of elements `range` of trained parameter `i`, which rank `shard_rank` owns, from a
  // block's first on; none where the parameter has no such state.
  std::optional<StatePlace> State(const Plan& plan, size_t i, size_t s, Range range,
                                  int32_t shard_rank) const;
};

// Blocks are bound to slots in turn: two neighbours are never in the same.
inline constexpr int32_t kGradientSlots = 2;
inline int32_t GradientSlotOf(int32_t unit) { return unit % kGradientSlots; }
inline int32_t WeightSlotOf(const Plan& plan, int32_t unit) { return unit % plan.weight_slots; }
// Codes that are read until a block is done need a slot as long as its weights do.
inline int32_t PackedSlots(const Plan& plan) {
  return plan.experts_at_once > 0 ? plan.weight_slots : 1;
}
inline int32_t PackedSlotOf(const Plan& plan, int32_t unit) { return unit % PackedSlots(plan); }

// Where a rank stands: shard groups are consecutive ranks.
struct MeshPlace {
  MeshPlace(const Plan& plan, int rank) : shard(rank % plan.shard), replica(rank / plan.shard) {}
  int32_t shard, replica;
};

// The elements of `owned` that rank `replica` writes into a checkpoint: replicas hold the same and
// share the work, by whole blocks of so many elements.
Range SavedBy(const Plan& plan, Range owned, int64_t block, int32_t replica);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_SHARD_MAP_H_
