#include "controller/planner/buffer_table.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/activation_owner.h"
#include "common/plan/logits_stride.h"
#include "common/plan/precision.h"
#include "controller/planner/buffer_extents.h"

namespace coxswain::planner {
namespace {

using plan::MemoryClass;

constexpr int64_t kFloat = 4;
// Sizes of records in device memory: kernels/adamw.h, kernels/global_norm.h, worker/engine.
constexpr int64_t kAdamWTensorBytes = 88, kNormTensorBytes = 32, kScalarsBytes = 512,
                  kVerificationBytes = 16384;

class Table {
 public:
  void Class(MemoryClass memory_class) { class_ = memory_class; }
  void Row(std::string name, int64_t bytes) {
    rows_.push_back({std::move(name), class_, bytes, ""});
  }
  void Alias(std::string name, std::string owner) {
    rows_.push_back({std::move(name), class_, 0, std::move(owner)});
  }
  std::vector<plan::Buffer> Take() { return std::move(rows_); }

 private:
  MemoryClass class_ = MemoryClass::kWeights;
  std::vector<plan::Buffer> rows_;
};

void AddLayer(const plan::Plan& plan, const BufferExtents& n, int64_t layer, Table* table) {
  const int64_t heads = plan.model.num_heads, kv_heads = plan.model.num_kv_heads;
  const auto row = [&](const char* name, int64_t bytes_per_token) {
    std::string full = absl::StrCat("layer", layer, ".", name);
    const int64_t owner = plan::ActivationOwner(plan, layer, name);
    if (owner != layer) {
      table->Alias(std::move(full), absl::StrCat("layer", owner, ".", name));
    } else {
      table->Row(std::move(full), n.tokens * bytes_per_token);
    }
  };
  row("residual_in", n.element * n.hidden);
  row("rstd1", kFloat);
  row("ln1", n.element * n.hidden);
  row("qkv", n.element * n.packed);
  if (plan.model.qk_norm) {
    row("qk_raw", n.element * (n.query + n.key));
    row("qk_rstd", kFloat * (heads + kv_heads));
  }
  row("att", n.element * n.query);
  row("lse", kFloat * heads);
  row("residual_mid", n.element * n.hidden);
  row("rstd2", kFloat);
  row("ln2", n.element * n.hidden);
  row("gate_up", n.element * 2 * n.intermediate);
  row("swiglu", n.element * n.intermediate);
  const int64_t linears = n.lora_linears[static_cast<size_t>(layer)];
  if (linears > 0) row("lora_h", n.element * plan.lora.rank * linears);
  for (const plan::DoraOutput& output : n.dora) {
    if (output.layer == layer) row(output.row, n.element * output.columns);
  }
}

void AddStates(const plan::Plan& plan, const BufferExtents& n, Table* table) {
  const plan::ShardMap& map = n.map;
  const auto some = [table](const char* name, int64_t bytes) {
    if (bytes > 0) table->Row(name, bytes);
  };
  table->Row("weights", n.element * map.weights);
  some("weight_slots", plan.weight_slots * n.element * map.weight_slot);
  some("master", kFloat * map.masters);
  table->Class(MemoryClass::kGradients);
  table->Row("gradients", kFloat * map.gradients);
  some("gradients.bf16", plan::kBfloat16Bytes * map.bf16_gradients);
  some("gradient_slots", plan::kGradientSlots * kFloat * map.gradient_slot);
  some("gradient_slots.bf16", plan::kGradientSlots * plan::kBfloat16Bytes * map.bf16_gradient_slot);
  table->Class(MemoryClass::kOptimizer);
  table->Row("adam.m", kFloat * map.state);
  table->Row("adam.v", kFloat * map.state);
  if (plan.device == "cuda") table->Class(MemoryClass::kHost);
  table->Row("snapshot", (8 + n.element) * map.state + (kFloat - n.element) * map.masters);
}

void AddBatch(const plan::Plan& plan, const BufferExtents& n, Table* table) {
  for (const char* name : {"batch.tokens", "batch.positions"}) table->Row(name, 4 * n.tokens);
  for (const char* name : {"batch.labels", "batch.rows"}) table->Row(name, 4 * n.head_rows);
  if (plan.lora.rank > 0 && plan.lora.dropout > 0) {
    table->Row("batch.bins", 4 * n.tokens);
    table->Row("batch.bin_positions", 4 * n.tokens);
  }
  table->Row("batch.cu_seqlens", 4 * (n.documents + 1));
  const int64_t rope = kFloat * plan.sequence_len * plan.model.head_dim / 2;
  table->Row("rope.cos", rope);
  table->Row("rope.sin", rope);
}

void AddWorkspace(const plan::Plan& plan, const BufferExtents& n, Table* table) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  for (const char* name : {"dres", "dnorm"}) table->Row(name, n.element * n.tokens * n.hidden);
  table->Alias("branch", "dnorm");
  table->Row("dqkv", n.element * n.tokens * n.packed);
  table->Row("datt", n.element * n.tokens * n.query);
  table->Row("dswiglu", n.element * n.tokens * n.intermediate);
  table->Row("head.logits",
             n.element * chunk * plan::LogitsStride(plan.model.vocab_size, n.element));
  table->Row("head.x", n.element * chunk * n.hidden);
  table->Row("head.dx", n.element * chunk * n.hidden);
  table->Row("head.loss", kFloat * chunk);
  table->Row("head.nll", kFloat * chunk);
  if (n.embedding_rows > 0) {
    table->Alias("embedding.rows", "head.logits");
    table->Row("embedding.ids", 4 * n.embedding_rows);
  }
  AddBatch(plan, n, table);
  if (n.dora_columns > 0) {
    for (const char* name : {"dora.squares", "dora.norm", "dora.factor"}) {
      table->Row(name, kFloat * n.dora_columns);
    }
  }
  table->Row("scalars", kScalarsBytes);
  table->Row("optimizer.tensors", kAdamWTensorBytes * n.trainable_tensors);
  table->Row("norm.tensors", kNormTensorBytes * n.trainable_tensors);
  table->Row("verification", kVerificationBytes);
  table->Row("scratch", ScratchBytes(plan, n));
}

}  // namespace

std::vector<plan::Buffer> BufferTable(const plan::Plan& plan) {
  const BufferExtents n(plan);
  Table table;
  AddStates(plan, n, &table);
  table.Class(MemoryClass::kActivations);
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) AddLayer(plan, n, layer, &table);
  table.Row("final.residual", n.element * n.tokens * n.hidden);
  table.Row("final.norm", n.element * n.tokens * n.hidden);
  table.Row("final.rstd", kFloat * n.tokens);
  table.Class(MemoryClass::kWorkspace);
  AddWorkspace(plan, n, &table);
  return table.Take();
}

}  // namespace coxswain::planner
