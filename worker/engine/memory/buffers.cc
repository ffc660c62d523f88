#include "worker/engine/memory/buffers.h"

#include <string>

#include "common/plan/buffer_names.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/plan/fp8_history.h"
#include "common/plan/gradient_sum.h"
#include "common/plan/optimizer_states.h"
#include "common/status_macros.h"

namespace coxswain::engine {
namespace {

void PlaceQuantized(const plan::Plan& plan, const plan::Flat& flat, const ParameterLayout& layout,
                    const Buffers& rows, FlatMemory* out) {
  const int64_t slot = plan::WeightSlotOf(plan, flat.unit) * layout.map.weight_slot;
  const int64_t packed = plan::PackedSlotOf(plan, flat.unit) * layout.map.packed_slot;
  out->dtype = ComputeDType(plan);
  if (!flat.in_ranges) out->values = rows.weight_slots + slot + flat.weight_slot;
  out->constants = rows.weight_scales;
  char* const in_row = rows.weights + flat.weights;
  char* const whole = flat.packed_slot < 0 ? in_row : rows.packed_slot + packed + flat.packed_slot;
  out->packed = {whole, whole + flat.ScaleOffset(flat.packed)};
  const int64_t owned = flat.packed_slot < 0 ? flat.packed : flat.packed / plan.shard;
  out->owned_packed = {in_row, in_row + flat.ScaleOffset(owned)};
}

void PlaceWeights(const plan::Plan& plan, const plan::Flat& flat, const ParameterLayout& layout,
                  const Buffers& rows, FlatMemory* out) {
  if (flat.quantized()) return PlaceQuantized(plan, flat, layout, rows, out);
  out->dtype = DTypeOf(flat.storage.weights);
  char* const in_row = rows.weights + flat.weights;
  if (flat.weights_slotted()) {
    const int64_t slot = plan::WeightSlotOf(plan, flat.unit) * layout.map.weight_slot;
    out->values = rows.weight_slots + slot + flat.weight_slot;
    if (flat.coded) out->codes = static_cast<uint8_t*>(out->values);
    out->owned = in_row;
  } else {
    out->values = in_row;
    out->owned = in_row + plan::StorageBytes(flat.storage.weights, layout.place.shard * flat.owned);
  }
  if (!flat.storage.master.has_value()) return;
  out->master = rows.master + flat.master;
  out->master_dtype = DTypeOf(*flat.storage.master);
}

void PlaceGradient(const plan::Flat& flat, const ParameterLayout& layout, const Buffers& rows,
                   FlatMemory* out) {
  const plan::Storage storage = *flat.storage.gradient;
  out->gradient_dtype = DTypeOf(storage);
  out->reduced_dtype = DTypeOf(flat.reduced_gradient());
  out->gradient_slotted = flat.gradient_slotted();
  char* const in_row = rows.gradients + flat.gradient;
  if (flat.gradient_slotted()) {
    const int64_t slot = plan::GradientSlotOf(flat.unit) * layout.map.gradient_slot;
    out->gradient = rows.gradient_slots + slot + flat.gradient_slot;
    out->reduced = in_row;
  } else {
    out->gradient = in_row;
    out->reduced = in_row + plan::StorageBytes(storage, layout.place.shard * flat.owned);
    if (flat.companion >= 0) out->companion = rows.gradient_companions + flat.companion;
  }
}

void PlaceFlats(const plan::Plan& plan, const ParameterLayout& layout, Buffers* buffers) {
  for (const plan::Flat& flat : layout.map.flats) {
    FlatMemory& memory = buffers->flats.emplace_back();
    PlaceWeights(plan, flat, layout, *buffers, &memory);
    if (flat.trained()) PlaceGradient(flat, layout, *buffers, &memory);
  }
}

// Typed views of the rows.
class Views {
 public:
  explicit Views(const Buffers& buffers) : buffers_(buffers) {}

  template <typename T>
  void Set(const std::string& name, T*& out) const {
    out = static_cast<T*>(buffers_.At(name));
  }

 private:
  const Buffers& buffers_;
};

void ViewParameters(const Views& view, Buffers* out) {
  view.Set(plan::buffers::kWeights, out->weights);
  view.Set(plan::buffers::kWeightSlots, out->weight_slots);
  view.Set(plan::buffers::kExpertWeights, out->expert_weights);
  view.Set(plan::buffers::kPackedSlot, out->packed_slot);
  view.Set(plan::buffers::kWeightScales, out->weight_scales);
  view.Set(plan::buffers::kGradients, out->gradients);
  view.Set(plan::buffers::kGradientSlots, out->gradient_slots);
  view.Set(plan::buffers::kGradientCompanions, out->gradient_companions);
  view.Set(plan::buffers::kGradientTerm, out->gradient_term.data);
  view.Set(plan::buffers::kMaster, out->master);
  view.Set(plan::buffers::kSnapshot, out->snapshot);
  view.Set(plan::buffers::kRouterCorrections, out->router_corrections);
  view.Set(plan::buffers::kFp8History, out->fp8_history);
  view.Set(plan::buffers::kFp8Expected, out->fp8_expected);
  view.Set(plan::buffers::kFp8Observed, out->fp8_gathered);
  view.Set(plan::buffers::kFp8Amaxes, out->fp8_amaxes);
  view.Set(plan::buffers::kFp8WeightAmaxes, out->fp8_weight_amaxes);
  view.Set(plan::buffers::kFp8WeightScales, out->fp8_weight_scales);
  view.Set(plan::buffers::kFp8Constants, out->fp8_constants);
}

void ViewSweep(const Views& view, Buffers* out) {
  view.Set(plan::BufferName(model::kFinalNormed), out->final_norm);
  view.Set(plan::buffers::kDres, out->dres);
  view.Set(plan::buffers::kDnorm, out->dnorm);
  view.Set(plan::buffers::kHeadLogits, out->logits);
  view.Set(plan::buffers::kHeadX, out->head_x);
  view.Set(plan::buffers::kHeadDx, out->head_dx);
  view.Set(plan::buffers::kHeadLoraH, out->head_lora_h);
  view.Set(plan::buffers::kEmbeddingLoraH, out->embedding_lora_h);
  view.Set(plan::buffers::kEmbeddingLoraDh, out->embedding_lora_dh);
  view.Set(plan::buffers::kHeadLoss, out->head_loss);
  view.Set(plan::buffers::kHeadNll, out->head_nll);
  view.Set(plan::buffers::kHeadStatistics, out->head_statistics);
  view.Set(plan::buffers::kHeadScores, out->scores);
  view.Set(plan::buffers::kHeadDscores, out->dscores);
  view.Set(plan::buffers::kEmbeddingRows, out->embedding_rows);
  view.Set(plan::buffers::kEmbeddingIds, out->embedding_ids);
}

void ViewBatch(const Views& view, Buffers* out) {
  view.Set(plan::buffers::kBatchTokens, out->tokens);
  view.Set(plan::buffers::kBatchPositions, out->positions);
  view.Set(plan::buffers::kBatchRopeRows, out->rope_rows);
  if (out->rope_rows == nullptr) out->rope_rows = out->positions;
  view.Set(plan::buffers::kBatchLabels, out->labels);
  view.Set(plan::buffers::kBatchRows, out->rows);
  view.Set(plan::buffers::kBatchBins, out->bins);
  view.Set(plan::buffers::kBatchBinPositions, out->bin_positions);
  view.Set(plan::buffers::kBatchFirstBin, out->first_bin);
  view.Set(plan::buffers::kBatchRowBins, out->row_bins);
  view.Set(plan::buffers::kBatchRowPositions, out->row_positions);
  view.Set(plan::buffers::kBatchCuSeqlens, out->cu_seqlens);
  view.Set(plan::buffers::kBatchPadding, out->padding);
  view.Set(plan::buffers::kDocumentsRows, out->documents.rows);
  view.Set(plan::buffers::kDocumentsSums, out->documents.sums);
  view.Set(plan::buffers::kDocumentsReferences, out->documents.references);
  view.Set(plan::buffers::kDocumentsValues, out->documents.values);
  view.Set(plan::buffers::kDocumentsCoefficients, out->documents.coefficients);
  view.Set(plan::buffers::kHeadWeights, out->documents.weights);
  view.Set(plan::buffers::kPolicyOldLogps, out->policy.old_logps);
  view.Set(plan::buffers::kPolicyAdvantages, out->policy.advantages);
  view.Set(plan::buffers::kPolicyReferences, out->policy.references);
  view.Set(plan::buffers::kPolicyParts, out->policy.parts);
  view.Set(plan::buffers::kRouterSums, out->router_sums);
  view.Set(plan::buffers::kRouterLosses, out->router_losses);
  view.Set(plan::buffers::kRouterFactors, out->router_factors);
  view.Set(plan::buffers::kRouterUse, out->router_use);
  view.Set(plan::buffers::kCacheSequences, out->cached_sequences);
  view.Set(plan::buffers::kGeneratedIds, out->generated_ids);
}

void ViewRecords(const Views& view, Buffers* out) {
  view.Set(plan::buffers::kDoraSquares, out->dora.squares);
  view.Set(plan::buffers::kDoraNorm, out->dora.norm);
  view.Set(plan::buffers::kDoraFactor, out->dora.factor);
  view.Set(plan::buffers::kScalars, out->scalars);
  view.Set(plan::buffers::kOptimizerTensors, out->adamw_tensors);
  view.Set(plan::buffers::kOptimizerTensors, out->adamw_8bit_tensors);
  view.Set(plan::buffers::kNormTensors, out->norm_tensors);
  view.Set(plan::buffers::kNormChunks, out->norm_chunks);
  view.Set(plan::buffers::kVerifiedValues, out->verified.values);
  view.Set(plan::buffers::kVerifiedNorms, out->verified.norms);
  view.Set(plan::buffers::kVerifiedBits, out->verified.bits);
  view.Set(plan::buffers::kVerifiedSums, out->verified.sums);
}

}  // namespace

absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, const ParameterLayout& layout,
                                    Arena& arena) {
  Buffers out;
  for (const plan::Buffer& row : plan::BufferRows(plan)) {
    ASSIGN_OR_RETURN(out.table[row.name], arena.Bind(row));
  }
  const Views view(out);
  ViewParameters(view, &out);
  if (out.fp8_gathered != nullptr) {
    const int64_t rank = layout.place.replica * layout.map.shard + layout.place.shard;
    out.fp8_observed = out.fp8_gathered + rank * plan::Fp8GatheredOperands(plan);
  }
  out.gradient_term.bytes = plan::GradientTermBytes(plan);
  for (const plan::OptimizerState& state : plan::OptimizerOf(plan).states) {
    out.states.push_back(static_cast<char*>(out.At(state.row)));
  }
  ViewSweep(view, &out);
  ViewBatch(view, &out);
  ViewRecords(view, &out);
  PlaceFlats(plan, layout, &out);
  return out;
}

absl::StatusOr<kernels::Workspace> BindScratch(int64_t bytes, Arena& arena) {
  ASSIGN_OR_RETURN(void* const scratch,
                   arena.Bind({plan::buffers::kScratch, plan::MemoryClass::kWorkspace, bytes, ""}));
  return kernels::Workspace{scratch, bytes};
}

}  // namespace coxswain::engine
