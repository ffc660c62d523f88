#include "worker/engine/memory/buffers.h"

#include <string>

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
  void Set(const char* name, T*& out) const {
    out = static_cast<T*>(buffers_.At(name));
  }

 private:
  const Buffers& buffers_;
};

void ViewParameters(const Views& view, Buffers* out) {
  view.Set("weights", out->weights);
  view.Set("weight_slots", out->weight_slots);
  view.Set("expert_weights", out->expert_weights);
  view.Set("packed_slot", out->packed_slot);
  view.Set("weight_scales", out->weight_scales);
  view.Set("gradients", out->gradients);
  view.Set("gradient_slots", out->gradient_slots);
  view.Set("gradient_companions", out->gradient_companions);
  view.Set("gradient_term", out->gradient_term.data);
  view.Set("master", out->master);
  view.Set("snapshot", out->snapshot);
  view.Set("router.corrections", out->router_corrections);
  view.Set("fp8.history", out->fp8_history);
  view.Set("fp8.expected", out->fp8_expected);
  view.Set("fp8.observed", out->fp8_gathered);
}

void ViewSweep(const Views& view, Buffers* out) {
  view.Set("final.norm", out->final_norm);
  view.Set("dres", out->dres);
  view.Set("dnorm", out->dnorm);
  view.Set("head.logits", out->logits);
  view.Set("head.x", out->head_x);
  view.Set("head.dx", out->head_dx);
  view.Set("head.lora_h", out->head_lora_h);
  view.Set("embedding.lora_h", out->embedding_lora_h);
  view.Set("embedding.lora_dh", out->embedding_lora_dh);
  view.Set("head.loss", out->head_loss);
  view.Set("head.nll", out->head_nll);
  view.Set("head.statistics", out->head_statistics);
  view.Set("head.scores", out->scores);
  view.Set("head.dscores", out->dscores);
  view.Set("embedding.rows", out->embedding_rows);
  view.Set("embedding.ids", out->embedding_ids);
}

void ViewBatch(const Views& view, Buffers* out) {
  view.Set("batch.tokens", out->tokens);
  view.Set("batch.positions", out->positions);
  view.Set("batch.rope_rows", out->rope_rows);
  if (out->rope_rows == nullptr) out->rope_rows = out->positions;
  view.Set("batch.labels", out->labels);
  view.Set("batch.rows", out->rows);
  view.Set("batch.bins", out->bins);
  view.Set("batch.bin_positions", out->bin_positions);
  view.Set("batch.first_bin", out->first_bin);
  view.Set("batch.row_bins", out->row_bins);
  view.Set("batch.row_positions", out->row_positions);
  view.Set("batch.cu_seqlens", out->cu_seqlens);
  view.Set("batch.padding", out->padding);
  view.Set("documents.rows", out->documents.rows);
  view.Set("documents.sums", out->documents.sums);
  view.Set("documents.references", out->documents.references);
  view.Set("documents.values", out->documents.values);
  view.Set("documents.coefficients", out->documents.coefficients);
  view.Set("head.weights", out->documents.weights);
  view.Set("policy.old_logps", out->policy.old_logps);
  view.Set("policy.advantages", out->policy.advantages);
  view.Set("policy.references", out->policy.references);
  view.Set("policy.parts", out->policy.parts);
  view.Set("router.sums", out->router_sums);
  view.Set("router.losses", out->router_losses);
  view.Set("router.factors", out->router_factors);
  view.Set("router.use", out->router_use);
  view.Set("cache.sequences", out->cached_sequences);
  view.Set("generated.ids", out->generated_ids);
}

void ViewRecords(const Views& view, Buffers* out) {
  view.Set("dora.squares", out->dora.squares);
  view.Set("dora.norm", out->dora.norm);
  view.Set("dora.factor", out->dora.factor);
  view.Set("scalars", out->scalars);
  view.Set("optimizer.tensors", out->adamw_tensors);
  view.Set("optimizer.tensors", out->adamw_8bit_tensors);
  view.Set("norm.tensors", out->norm_tensors);
  view.Set("norm.chunks", out->norm_chunks);
  view.Set("verified.values", out->verified.values);
  view.Set("verified.norms", out->verified.norms);
  view.Set("verified.bits", out->verified.bits);
  view.Set("verified.sums", out->verified.sums);
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
                   arena.Bind({"scratch", plan::MemoryClass::kWorkspace, bytes, ""}));
  return kernels::Workspace{scratch, bytes};
}

}  // namespace coxswain::engine
