#include "worker/engine/buffers.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::engine {
namespace {

using plan::MemoryClass;

// Binds rows one by one and keeps the first error, so that the table reads as a table.
class Binder {
 public:
  explicit Binder(Arena& arena) : arena_(arena) {}

  void Class(MemoryClass memory_class) { class_ = memory_class; }

  template <typename T>
  void Row(const std::string& name, int64_t elements, T*& out, const std::string& alias_of = "") {
    if (!status_.ok()) return;
    absl::StatusOr<void*> memory =
        arena_.Bind({name, class_, elements * static_cast<int64_t>(sizeof(T)), alias_of});
    if (memory.ok()) {
      out = static_cast<T*>(*memory);
    } else {
      status_ = memory.status();
    }
  }

  const absl::Status& status() const { return status_; }

 private:
  Arena& arena_;
  MemoryClass class_ = MemoryClass::kWeights;
  absl::Status status_;
};

void BindLayer(const plan::Plan& plan, const Extents& n, int64_t layer, Binder& binder,
               LayerBuffers& out) {
  const auto name = [layer](const char* row) { return absl::StrCat("layer", layer, ".", row); };
  const bool shared = plan.recompute == "block" && layer > 0;
  const auto row = [&](const char* row_name, int64_t elements, float*& memory) {
    binder.Row(name(row_name), elements, memory,
               shared ? absl::StrCat("layer0.", row_name) : std::string());
  };
  const int64_t heads = plan.model.num_heads, kv_heads = plan.model.num_kv_heads;
  binder.Row(name("residual_in"), n.tokens * n.hidden, out.residual_in);
  row("rstd1", n.tokens, out.rstd1);
  row("ln1", n.tokens * n.hidden, out.ln1);
  row("qkv", n.tokens * n.packed, out.qkv);
  if (plan.model.qk_norm) {
    row("qk_raw", n.tokens * (n.query + n.key), out.qk_raw);
    row("qk_rstd", n.tokens * (heads + kv_heads), out.qk_rstd);
  }
  row("att", n.tokens * n.query, out.att);
  row("lse", n.tokens * heads, out.lse);
  row("residual_mid", n.tokens * n.hidden, out.residual_mid);
  row("rstd2", n.tokens, out.rstd2);
  row("ln2", n.tokens * n.hidden, out.ln2);
  row("gate_up", n.tokens * 2 * n.intermediate, out.gate_up);
  row("swiglu", n.tokens * n.intermediate, out.swiglu);
  if (n.lora_linears[layer] > 0) {
    row("lora_h", n.tokens * plan.lora.rank * n.lora_linears[layer], out.lora_h);
  }
}

void BindBackward(const Extents& n, Binder& binder, Buffers& out) {
  binder.Row("branch", n.tokens * n.hidden, out.branch);
  binder.Row("dres", n.tokens * n.hidden, out.dres);
  binder.Row("dnorm", n.tokens * n.hidden, out.dnorm);
  binder.Row("dqkv", n.tokens * n.packed, out.dqkv);
  binder.Row("datt", n.tokens * n.query, out.datt);
  binder.Row("dswiglu", n.tokens * n.intermediate, out.dswiglu);
}

void BindHead(const plan::Plan& plan, const Extents& n, Binder& binder, Buffers& out) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  binder.Row("head.logits", chunk * plan.model.vocab_size, out.logits);
  binder.Row("head.x", chunk * n.hidden, out.head_x);
  binder.Row("head.dx", chunk * n.hidden, out.head_dx);
  binder.Row("head.loss", chunk, out.head_loss);
  binder.Row("head.nll", chunk, out.head_nll);
}

void BindBatch(const plan::Plan& plan, const Extents& n, Binder& binder, Buffers& out) {
  binder.Row("batch.tokens", n.tokens, out.tokens);
  binder.Row("batch.positions", n.tokens, out.positions);
  binder.Row("batch.labels", n.tokens, out.labels);
  binder.Row("batch.rows", n.tokens, out.rows);
  binder.Row("batch.cu_seqlens", n.documents + 1, out.cu_seqlens);
  if (plan.lora.rank > 0 && plan.lora.dropout > 0) {
    binder.Row("batch.bins", n.tokens, out.bins);
    binder.Row("batch.bin_positions", n.tokens, out.bin_positions);
  }
  const int64_t table = plan.sequence_len * plan.model.head_dim / 2;
  binder.Row("rope.cos", table, out.rope_cos);
  binder.Row("rope.sin", table, out.rope_sin);
}

}  // namespace

Extents::Extents(const plan::Plan& plan)
    : tokens(plan.micro_batch_bins * plan.sequence_len),
      documents(plan.micro_batch_bins * plan.max_documents_per_bin),
      hidden(plan.model.hidden_size),
      query(plan.model.num_heads * plan.model.head_dim),
      key(plan.model.num_kv_heads * plan.model.head_dim),
      packed(query + 2 * key),
      intermediate(plan.model.intermediate_size),
      lora_linears(static_cast<size_t>(plan.model.num_layers)) {
  for (const plan::Parameter& parameter : plan.parameters) {
    elements += parameter.elements();
    if (parameter.trainable()) {
      trainable += parameter.elements();
      ++trainable_tensors;
      trainable_chunks += kernels::TensorChunks(parameter.elements());
    }
    const bool lora_a =
        (static_cast<uint32_t>(parameter.role) & static_cast<uint32_t>(plan::Role::kLoraA)) != 0;
    if (lora_a && parameter.layer >= 0 && parameter.layer < plan.model.num_layers) {
      ++lora_linears[static_cast<size_t>(parameter.layer)];
    }
  }
}

absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, Arena& arena) {
  const Extents n(plan);
  Buffers out;
  Binder binder(arena);
  binder.Row("weights", n.elements, out.weights);
  binder.Class(MemoryClass::kGradients);
  binder.Row("gradients", n.trainable, out.gradients);
  binder.Class(MemoryClass::kOptimizer);
  binder.Row("adam.m", n.trainable, out.adam_m);
  binder.Row("adam.v", n.trainable, out.adam_v);
  binder.Row("snapshot", 3 * n.trainable, out.snapshot);
  binder.Class(MemoryClass::kActivations);
  out.layers.resize(static_cast<size_t>(plan.model.num_layers));
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    BindLayer(plan, n, layer, binder, out.layers[layer]);
  }
  binder.Row("final.residual", n.tokens * n.hidden, out.final_residual);
  binder.Row("final.norm", n.tokens * n.hidden, out.final_norm);
  binder.Row("final.rstd", n.tokens, out.final_rstd);
  binder.Class(MemoryClass::kWorkspace);
  BindBackward(n, binder, out);
  BindHead(plan, n, binder, out);
  BindBatch(plan, n, binder, out);
  char* scalars = nullptr;
  binder.Row("scalars", kScalarsBytes, scalars);
  out.scalars = reinterpret_cast<Scalars*>(scalars);
  binder.Row("optimizer.tensors", n.trainable_tensors, out.adamw_tensors);
  binder.Row("norm.tensors", n.trainable_tensors, out.norm_tensors);
  RETURN_IF_ERROR(binder.status());
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
