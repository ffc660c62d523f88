#include "worker/engine/buffers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/plan/activation_owner.h"
#include "common/plan/dora_outputs.h"
#include "common/plan/embedding_rows.h"
#include "common/plan/logits_stride.h"
#include "common/status_macros.h"

namespace coxswain::engine {
namespace {

using plan::MemoryClass;

// Binds rows one by one and keeps the first error, so that the table reads as a table.
class Binder {
 public:
  explicit Binder(Arena& arena) : arena_(arena) {}

  void Class(MemoryClass memory_class) { class_ = memory_class; }

  void Bytes(const std::string& name, int64_t bytes, void** out, const std::string& alias_of = "") {
    if (!status_.ok()) return;
    absl::StatusOr<void*> memory = arena_.Bind({name, class_, bytes, alias_of});
    if (memory.ok()) {
      *out = *memory;
    } else {
      status_ = memory.status();
    }
  }

  // `elements` of T.
  template <typename T>
  void Row(const std::string& name, int64_t elements, T*& out, const std::string& alias_of = "") {
    void* memory = nullptr;
    Bytes(name, elements * static_cast<int64_t>(sizeof(T)), &memory, alias_of);
    out = static_cast<T*>(memory);
  }

  const absl::Status& status() const { return status_; }

 private:
  Arena& arena_;
  MemoryClass class_ = MemoryClass::kWeights;
  absl::Status status_;
};

// The rows of one layer, shared with another layer's where the recompute level says so.
class LayerBinder {
 public:
  LayerBinder(const plan::Plan& plan, int64_t layer, Binder& binder)
      : plan_(plan),
        layer_(layer),
        bytes_(kernels::DTypeBytes(ComputeDType(plan))),
        binder_(binder) {}

  void Compute(const char* row, int64_t elements, void*& out) {
    binder_.Bytes(Name(layer_, row), elements * bytes_, &out, Owner(row));
  }
  void Float(const char* row, int64_t elements, float*& out) {
    binder_.Row(Name(layer_, row), elements, out, Owner(row));
  }

 private:
  static std::string Name(int64_t layer, const char* row) {
    return absl::StrCat("layer", layer, ".", row);
  }
  std::string Owner(const char* row) const {
    const int64_t owner = plan::ActivationOwner(plan_, layer_, row);
    return owner == layer_ ? std::string() : Name(owner, row);
  }

  const plan::Plan& plan_;
  const int64_t layer_;
  const int64_t bytes_;
  Binder& binder_;
};

void*& OutputBeforeScale(std::string_view row, LayerBuffers& out) {
  if (row == "qkv_u") return out.qkv_u;
  if (row == "o_u") return out.o_u;
  return row == "gate_up_u" ? out.gate_up_u : out.down_u;
}

void BindLayer(const plan::Plan& plan, const Extents& n, int64_t layer, Binder& binder,
               LayerBuffers& out) {
  LayerBinder row(plan, layer, binder);
  const int64_t heads = plan.model.num_heads, kv_heads = plan.model.num_kv_heads;
  row.Compute("residual_in", n.tokens * n.hidden, out.residual_in);
  row.Float("rstd1", n.tokens, out.rstd1);
  row.Compute("ln1", n.tokens * n.hidden, out.ln1);
  row.Compute("qkv", n.tokens * n.packed, out.qkv);
  if (plan.model.qk_norm) {
    row.Compute("qk_raw", n.tokens * (n.query + n.key), out.qk_raw);
    row.Float("qk_rstd", n.tokens * (heads + kv_heads), out.qk_rstd);
  }
  row.Compute("att", n.tokens * n.query, out.att);
  row.Float("lse", n.tokens * heads, out.lse);
  row.Compute("residual_mid", n.tokens * n.hidden, out.residual_mid);
  row.Float("rstd2", n.tokens, out.rstd2);
  row.Compute("ln2", n.tokens * n.hidden, out.ln2);
  row.Compute("gate_up", n.tokens * 2 * n.intermediate, out.gate_up);
  row.Compute("swiglu", n.tokens * n.intermediate, out.swiglu);
  if (n.lora_linears[layer] > 0) {
    row.Compute("lora_h", n.tokens * plan.lora.rank * n.lora_linears[layer], out.lora_h);
  }
  for (const plan::DoraOutput& output : plan::DoraOutputs(plan)) {
    if (output.layer == layer) {
      row.Compute(output.row, n.tokens * output.columns, OutputBeforeScale(output.row, out));
    }
  }
}

void BindDora(const plan::Plan& plan, Binder& binder, DoraBuffers& out) {
  int64_t columns = 0;
  for (const plan::DoraOutput& output : plan::DoraOutputs(plan)) columns += output.columns;
  if (columns == 0) return;
  binder.Row("dora.squares", columns, out.squares);
  binder.Row("dora.norm", columns, out.norm);
  binder.Row("dora.factor", columns, out.factor);
}

void BindParameters(const plan::Plan& plan, const ParameterLayout& layout, Binder& binder,
                    Buffers& out) {
  const plan::ShardMap& map = layout.map;
  const int64_t bytes = kernels::DTypeBytes(ComputeDType(plan));
  const auto some = [&binder](const char* name, int64_t elements, auto*& row) {
    if (elements > 0) binder.Row(name, elements, row);
  };
  binder.Bytes("weights", map.weights * bytes, &out.weights);
  if (map.weight_slot > 0) {
    binder.Bytes("weight_slots", plan.weight_slots * map.weight_slot * bytes, &out.weight_slots);
  }
  some("master", map.masters, out.master);
  binder.Class(MemoryClass::kGradients);
  binder.Row("gradients", map.gradients, out.gradients);
  some("gradients.bf16", map.bf16_gradients, out.bf16_gradients);
  some("gradient_slots", plan::kGradientSlots * map.gradient_slot, out.gradient_slots);
  some("gradient_slots.bf16", plan::kGradientSlots * map.bf16_gradient_slot,
       out.bf16_gradient_slots);
  binder.Class(MemoryClass::kOptimizer);
  binder.Row("adam.m", map.state, out.adam_m);
  binder.Row("adam.v", map.state, out.adam_v);
  if (plan.device == "cuda") binder.Class(MemoryClass::kHost);
  binder.Row("snapshot", SnapshotBytes(plan, layout), out.snapshot);
}

void PlaceWeights(const plan::Plan& plan, const plan::Flat& flat, const ParameterLayout& layout,
                  const Buffers& rows, FlatMemory* out) {
  const int64_t bytes = kernels::DTypeBytes(ComputeDType(plan));
  char* in_row = static_cast<char*>(rows.weights) + flat.weights * bytes;
  if (flat.weights_slotted()) {
    const int64_t slot =
        plan::WeightSlotOf(plan, flat.unit) * layout.map.weight_slot + flat.weight_slot;
    out->values = static_cast<char*>(rows.weight_slots) + slot * bytes;
    out->owned = in_row;
  } else {
    out->values = in_row;
    out->owned = in_row + layout.place.shard * flat.owned * bytes;
  }
}

void PlaceGradient(const plan::Flat& flat, const ParameterLayout& layout, const Buffers& rows,
                   FlatMemory* out) {
  const bool bf16 = flat.kind == plan::FlatKind::kBfloat16Gradient;
  const int32_t slot = plan::GradientSlotOf(flat.unit);
  out->gradient_dtype = bf16 ? kernels::DType::kBFloat16 : kernels::DType::kFloat32;
  out->gradient_slotted = flat.gradient_slotted();
  if (flat.gradient_slotted()) {
    out->reduced = rows.gradients + flat.gradient;
    if (bf16) {
      out->gradient =
          rows.bf16_gradient_slots + slot * layout.map.bf16_gradient_slot + flat.gradient_slot;
    } else {
      out->gradient = rows.gradient_slots + slot * layout.map.gradient_slot + flat.gradient_slot;
    }
    return;
  }
  const int64_t own = layout.place.shard * flat.owned;
  out->reduced_dtype = out->gradient_dtype;
  if (bf16) {
    out->gradient = rows.bf16_gradients + flat.gradient;
    out->reduced = rows.bf16_gradients + flat.gradient + own;
  } else {
    out->gradient = rows.gradients + flat.gradient;
    out->reduced = rows.gradients + flat.gradient + own;
  }
}

void PlaceFlats(const plan::Plan& plan, const ParameterLayout& layout, Buffers* buffers) {
  for (const plan::Flat& flat : layout.map.flats) {
    FlatMemory& memory = buffers->flats.emplace_back();
    PlaceWeights(plan, flat, layout, *buffers, &memory);
    if (flat.trained()) PlaceGradient(flat, layout, *buffers, &memory);
  }
}

void BindBackward(const plan::Plan& plan, const Extents& n, Binder& binder, Buffers& out) {
  const int64_t bytes = kernels::DTypeBytes(ComputeDType(plan)) * n.tokens;
  binder.Bytes("dres", bytes * n.hidden, &out.dres);
  binder.Bytes("dnorm", bytes * n.hidden, &out.dnorm);
  binder.Bytes("branch", bytes * n.hidden, &out.branch, "dnorm");
  binder.Bytes("dqkv", bytes * n.packed, &out.dqkv);
  binder.Bytes("datt", bytes * n.query, &out.datt);
  binder.Bytes("dswiglu", bytes * n.intermediate, &out.dswiglu);
}

void BindHead(const plan::Plan& plan, const Extents& n, Binder& binder, Buffers& out) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  const int64_t element = kernels::DTypeBytes(ComputeDType(plan)), bytes = element * chunk;
  binder.Bytes("head.logits", bytes * plan::LogitsStride(plan.model.vocab_size, element),
               &out.logits);
  binder.Bytes("head.x", bytes * n.hidden, &out.head_x);
  binder.Bytes("head.dx", bytes * n.hidden, &out.head_dx);
  binder.Row("head.loss", chunk, out.head_loss);
  binder.Row("head.nll", chunk, out.head_nll);
  if (n.embedding_rows == 0) return;
  binder.Bytes("embedding.rows",
               n.embedding_rows * n.hidden * kernels::DTypeBytes(ComputeDType(plan)),
               &out.embedding_rows, "head.logits");
  binder.Row("embedding.ids", n.embedding_rows, out.embedding_ids);
}

void BindBatch(const plan::Plan& plan, const Extents& n, Binder& binder, Buffers& out) {
  binder.Row("batch.tokens", n.tokens, out.tokens);
  binder.Row("batch.positions", n.tokens, out.positions);
  binder.Row("batch.labels", n.target_rows, out.labels);
  binder.Row("batch.rows", n.target_rows, out.rows);
  binder.Row("batch.cu_seqlens", n.documents + 1, out.cu_seqlens);
  if (plan.lora.rank > 0 && plan.lora.dropout > 0) {
    binder.Row("batch.bins", n.tokens, out.bins);
    binder.Row("batch.bin_positions", n.tokens, out.bin_positions);
  }
  const int64_t table = plan.sequence_len * plan.model.head_dim / 2;
  binder.Row("rope.cos", table, out.rope_cos);
  binder.Row("rope.sin", table, out.rope_sin);
}

void BindScalars(const ParameterLayout& layout, Binder& binder, Buffers& out) {
  char* memory = nullptr;
  binder.Row("scalars", kScalarsBytes, memory);
  out.scalars = reinterpret_cast<Scalars*>(memory);
  binder.Row("verification", kVerificationBytes, memory);
  out.verification = reinterpret_cast<GroupStatistics*>(memory);
  binder.Row("optimizer.tensors", layout.trainable_tensors, out.adamw_tensors);
  binder.Row("norm.tensors", layout.trainable_tensors, out.norm_tensors);
}

}  // namespace

int64_t SnapshotBytes(const plan::Plan& plan, const ParameterLayout& layout) {
  const int64_t compute = kernels::DTypeBytes(ComputeDType(plan));
  return (8 + compute) * layout.map.state + (4 - compute) * layout.map.masters;
}

Extents::Extents(const plan::Plan& plan)
    : tokens(plan.micro_batch_bins * plan.sequence_len),
      documents(plan.micro_batch_bins *
                (plan.max_documents_per_bin + (plan.device == "cuda" ? 1 : 0))),
      embedding_rows(plan::ExchangesEmbeddingRows(plan) ? plan::EmbeddingRowTokens(plan) : 0),
      hidden(plan.model.hidden_size),
      query(plan.model.num_heads * plan.model.head_dim),
      key(plan.model.num_kv_heads * plan.model.head_dim),
      packed(query + 2 * key),
      intermediate(plan.model.intermediate_size),
      lora_linears(static_cast<size_t>(plan.model.num_layers)) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  target_rows = (tokens + chunk - 1) / chunk * chunk;
  for (const model::Parameter& parameter : plan.parameters) {
    const bool lora_a =
        (static_cast<uint32_t>(parameter.role) & static_cast<uint32_t>(model::Role::kLoraA)) != 0;
    if (lora_a && parameter.layer >= 0 && parameter.layer < plan.model.num_layers) {
      ++lora_linears[static_cast<size_t>(parameter.layer)];
    }
  }
}

absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, const ParameterLayout& layout,
                                    Arena& arena) {
  const Extents n(plan);
  const int64_t bytes = kernels::DTypeBytes(ComputeDType(plan)) * n.tokens;
  Buffers out;
  Binder binder(arena);
  BindParameters(plan, layout, binder, out);
  binder.Class(MemoryClass::kActivations);
  out.layers.resize(static_cast<size_t>(plan.model.num_layers));
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    BindLayer(plan, n, layer, binder, out.layers[layer]);
  }
  binder.Bytes("final.residual", bytes * n.hidden, &out.final_residual);
  binder.Bytes("final.norm", bytes * n.hidden, &out.final_norm);
  binder.Row("final.rstd", n.tokens, out.final_rstd);
  binder.Class(MemoryClass::kWorkspace);
  BindBackward(plan, n, binder, out);
  BindHead(plan, n, binder, out);
  BindBatch(plan, n, binder, out);
  BindDora(plan, binder, out.dora);
  BindScalars(layout, binder, out);
  RETURN_IF_ERROR(binder.status());
  PlaceFlats(plan, layout, &out);
  return out;
}

absl::StatusOr<kernels::Workspace> BindScratch(int64_t bytes, Arena& arena) {
  Binder binder(arena);
  binder.Class(MemoryClass::kWorkspace);
  char* scratch = nullptr;
  binder.Row("scratch", bytes, scratch);
  RETURN_IF_ERROR(binder.status());
  return kernels::Workspace{scratch, bytes};
}

}  // namespace coxswain::engine
