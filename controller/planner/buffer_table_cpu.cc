#include "controller/planner/buffer_table_cpu.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::planner {
namespace {

using plan::MemoryClass;

constexpr int64_t kFloat = 4;
// Sizes of records that the kernels read from device memory (kernels/adamw.h,
// kernels/global_norm.h).
constexpr int64_t kAdamWTensorBytes = 80, kNormTensorBytes = 32, kScalarsBytes = 256;

// Names as in the table's legend.
struct Extents {
  explicit Extents(const plan::Plan& plan) {
    const model::ModelConfig& model = plan.model;
    tokens = plan.micro_batch_bins * plan.sequence_len;
    documents = plan.micro_batch_bins * plan.max_documents_per_bin;
    hidden = model.hidden_size;
    query = model.num_heads * model.head_dim;
    key = model.num_kv_heads * model.head_dim;
    packed = query + 2 * key;
    intermediate = model.intermediate_size;
    lora_linears.resize(static_cast<size_t>(model.num_layers));
    for (const plan::Parameter& parameter : plan.parameters) {
      elements += parameter.elements();
      if (parameter.trainable()) {
        trainable += parameter.elements();
        ++trainable_tensors;
      }
      const bool lora_a =
          (static_cast<uint32_t>(parameter.role) & static_cast<uint32_t>(plan::Role::kLoraA)) != 0;
      if (lora_a) ++lora_linears[static_cast<size_t>(parameter.layer)];
    }
  }

  int64_t tokens = 0, documents = 0, hidden = 0, query = 0, key = 0, packed = 0, intermediate = 0;
  int64_t elements = 0, trainable = 0, trainable_tensors = 0;
  std::vector<int64_t> lora_linears;  // adapted linears of each layer
};

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

void AddLayer(const plan::Plan& plan, const Extents& n, int64_t layer, Table* table) {
  const int64_t heads = plan.model.num_heads, kv_heads = plan.model.num_kv_heads;
  const bool shared = plan.recompute == "block" && layer > 0;
  const auto row = [&](const char* name, int64_t floats_per_token) {
    std::string full = absl::StrCat("layer", layer, ".", name);
    if (shared) {
      table->Alias(std::move(full), absl::StrCat("layer0.", name));
    } else {
      table->Row(std::move(full), kFloat * n.tokens * floats_per_token);
    }
  };
  table->Row(absl::StrCat("layer", layer, ".residual_in"), kFloat * n.tokens * n.hidden);
  row("rstd1", 1);
  row("ln1", n.hidden);
  row("qkv", n.packed);
  if (plan.model.qk_norm) {
    row("qk_raw", n.query + n.key);
    row("qk_rstd", heads + kv_heads);
  }
  row("att", n.query);
  row("lse", heads);
  row("residual_mid", n.hidden);
  row("rstd2", 1);
  row("ln2", n.hidden);
  row("gate_up", 2 * n.intermediate);
  row("swiglu", n.intermediate);
  const int64_t linears = n.lora_linears[static_cast<size_t>(layer)];
  if (linears > 0) row("lora_h", plan.lora.rank * linears);
}

void AddBatch(const plan::Plan& plan, const Extents& n, Table* table) {
  for (const char* name : {"batch.tokens", "batch.positions", "batch.labels", "batch.rows"}) {
    table->Row(name, 4 * n.tokens);
  }
  if (plan.lora.rank > 0 && plan.lora.dropout > 0) {
    table->Row("batch.bins", 4 * n.tokens);
    table->Row("batch.bin_positions", 4 * n.tokens);
  }
  table->Row("batch.cu_seqlens", 4 * (n.documents + 1));
  const int64_t rope = kFloat * plan.sequence_len * plan.model.head_dim / 2;
  table->Row("rope.cos", rope);
  table->Row("rope.sin", rope);
}

// Upper bound of the scratch memory of every CPU kernel.
int64_t ScratchBytes(const plan::Plan& plan, const Extents& n) {
  const int64_t dim = plan.model.head_dim;
  const int64_t block_rows =
      std::max<int64_t>(128, 16 * (plan.model.num_heads / plan.model.num_kv_heads));
  const int64_t attention = 2 * block_rows * (2 * dim + plan.sequence_len);
  const int64_t adapters =
      3 * plan.lora.rank * n.tokens + 128 * std::max({n.hidden, n.query, n.intermediate});
  const int64_t columns = (n.tokens / 64 + 1) * std::max({n.packed, 2 * n.intermediate, 2 * dim});
  const int64_t norm = 2 * (n.trainable / 16384 + 1 + n.trainable_tensors);
  return 4096 + kFloat * std::max({attention, adapters, columns, norm});
}

void AddWorkspace(const plan::Plan& plan, const Extents& n, Table* table) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  for (const char* name : {"branch", "dres", "dnorm"}) {
    table->Row(name, kFloat * n.tokens * n.hidden);
  }
  table->Row("dqkv", kFloat * n.tokens * n.packed);
  table->Row("datt", kFloat * n.tokens * n.query);
  table->Row("dswiglu", kFloat * n.tokens * n.intermediate);
  table->Row("head.logits", kFloat * chunk * plan.model.vocab_size);
  table->Row("head.x", kFloat * chunk * n.hidden);
  table->Row("head.dx", kFloat * chunk * n.hidden);
  table->Row("head.loss", kFloat * chunk);
  table->Row("head.nll", kFloat * chunk);
  AddBatch(plan, n, table);
  table->Row("scalars", kScalarsBytes);
  table->Row("optimizer.tensors", kAdamWTensorBytes * n.trainable_tensors);
  table->Row("norm.tensors", kNormTensorBytes * n.trainable_tensors);
  table->Row("scratch", ScratchBytes(plan, n));
}

}  // namespace

std::vector<plan::Buffer> CpuBufferTable(const plan::Plan& plan) {
  const Extents n(plan);
  Table table;
  table.Row("weights", kFloat * n.elements);
  table.Class(MemoryClass::kGradients);
  table.Row("gradients", kFloat * n.trainable);
  table.Class(MemoryClass::kOptimizer);
  table.Row("adam.m", kFloat * n.trainable);
  table.Row("adam.v", kFloat * n.trainable);
  table.Row("snapshot", 3 * kFloat * n.trainable);
  table.Class(MemoryClass::kActivations);
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) AddLayer(plan, n, layer, &table);
  table.Row("final.residual", kFloat * n.tokens * n.hidden);
  table.Row("final.norm", kFloat * n.tokens * n.hidden);
  table.Row("final.rstd", kFloat * n.tokens);
  table.Class(MemoryClass::kWorkspace);
  AddWorkspace(plan, n, &table);
  return table.Take();
}

}  // namespace coxswain::planner
