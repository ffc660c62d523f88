#include "controller/planner/buffer_table.h"

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
constexpr int64_t kAdamWTensorBytes = 56, kNormTensorBytes = 16, kScalarsBytes = 256;

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
using plan::Buffer;
using plan::MemoryClass;
using plan::Parameter;
using plan::Role;

// Letters as in worker/engine/README.md.
struct Extents {
  explicit Extents(const plan::Plan& plan)
      : T(plan.micro_batch_bins * plan.sequence_len),
        D(plan.micro_batch_bins * plan.max_documents_per_bin),
        C(plan.lm_head_chunk_tokens),
        H(plan.model.hidden_size),
        V(plan.model.vocab_size),
        I(plan.model.intermediate_size),
        heads(plan.model.num_heads),
        kv_heads(plan.model.num_kv_heads),
        head_dim(plan.model.head_dim),
        Q(heads * head_dim),
        K(kv_heads * head_dim),
        P(Q + 2 * K),
        r(plan.lora.rank),
        lora_linears(static_cast<size_t>(plan.model.num_layers), 0) {
    for (const Parameter& parameter : plan.parameters) {
      E += parameter.elements();
      if (parameter.trainable()) {
        G += parameter.elements();
        ++N;
      }
      const bool is_a =
          (static_cast<uint32_t>(parameter.role) & static_cast<uint32_t>(Role::kLoraA)) != 0;
      if (is_a) ++lora_linears[static_cast<size_t>(parameter.layer)];
    }
  }

  int64_t T, D, C, H, V, I, heads, kv_heads, head_dim, Q, K, P, r;
  int64_t E = 0, G = 0, N = 0;
  std::vector<int64_t> lora_linears;  // n(i)
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

  void Add(const std::string& name, int64_t bytes) {
    rows_.push_back({.name = name, .memory_class = class_, .bytes = bytes, .alias_of = {}});
  }

  void AddAlias(const std::string& name, const std::string& of) {
    rows_.push_back({.name = name, .memory_class = class_, .bytes = 0, .alias_of = of});
  }

  std::vector<Buffer> Take() { return std::move(rows_); }

 private:
  MemoryClass class_ = MemoryClass::kWeights;
  std::vector<Buffer> rows_;
};

// With recompute "block" every layer refills the buffers of layer 0; only its input is kept.
void AddLayer(const plan::Plan& plan, const Extents& n, int64_t layer, Table& table) {
  const bool shared = plan.recompute == "block" && layer > 0;
  const auto add = [&](const char* row, int64_t bytes) {
    const std::string name = absl::StrCat("layer", layer, ".", row);
    if (shared) {
      table.AddAlias(name, absl::StrCat("layer0.", row));
    } else {
      table.Add(name, bytes);
    }
  };
  table.Add(absl::StrCat("layer", layer, ".residual_in"), 4 * n.T * n.H);
  add("rstd1", 4 * n.T);
  add("ln1", 4 * n.T * n.H);
  add("qkv", 4 * n.T * n.P);
  if (plan.model.qk_norm) {
    add("qk_raw", 4 * n.T * (n.Q + n.K));
    add("qk_rstd", 4 * n.T * (n.heads + n.kv_heads));
  }
  add("att", 4 * n.T * n.Q);
  add("lse", 4 * n.T * n.heads);
  add("residual_mid", 4 * n.T * n.H);
  add("rstd2", 4 * n.T);
  add("ln2", 4 * n.T * n.H);
  add("gate_up", 8 * n.T * n.I);
  add("swiglu", 4 * n.T * n.I);
  const int64_t adapted = n.lora_linears[static_cast<size_t>(layer)];
  if (adapted > 0) add("lora_h", 4 * n.T * n.r * adapted);
}

int64_t ScratchBytes(const plan::Plan& plan, const Extents& n) {
  const int64_t attention_rows = std::max<int64_t>(128, 16 * n.heads / n.kv_heads);
  const int64_t attention = 2 * attention_rows * (2 * n.head_dim + plan.sequence_len);
  const int64_t lora = 3 * n.r * n.T + 128 * std::max({n.H, n.Q, n.I});
  const int64_t columns = (n.T / 64 + 1) * std::max({n.P, 2 * n.I, 2 * n.head_dim});
  const int64_t norm = 2 * (n.G / 16384 + 1 + n.N);
  return 4096 + 4 * std::max({attention, lora, columns, norm});
}

void AddWorkspace(const plan::Plan& plan, const Extents& n, Table& table) {
  table.Add("branch", 4 * n.T * n.H);
  table.Add("dres", 4 * n.T * n.H);
  table.Add("dnorm", 4 * n.T * n.H);
  table.Add("dqkv", 4 * n.T * n.P);
  table.Add("datt", 4 * n.T * n.Q);
  table.Add("dswiglu", 4 * n.T * n.I);
  table.Add("head.logits", 4 * n.C * n.V);
  for (const char* row : {"head.x", "head.dx"}) table.Add(row, 4 * n.C * n.H);
  for (const char* row : {"head.loss", "head.nll"}) table.Add(row, 4 * n.C);
  for (const char* row : {"batch.tokens", "batch.positions", "batch.labels", "batch.rows"}) {
    table.Add(row, 4 * n.T);
  }
  if (n.r > 0 && plan.lora.dropout > 0) {
    for (const char* row : {"batch.bins", "batch.bin_positions"}) table.Add(row, 4 * n.T);
  }
  table.Add("batch.cu_seqlens", 4 * (n.D + 1));
  for (const char* row : {"rope.cos", "rope.sin"}) {
    table.Add(row, 2 * plan.sequence_len * n.head_dim);
  }
  table.Add("scalars", 256);
  table.Add("optimizer.tensors", 56 * n.N);
  table.Add("norm.tensors", 16 * n.N);
  table.Add("scratch", ScratchBytes(plan, n));
}

}  // namespace

std::vector<plan::Buffer> BufferTable(const plan::Plan& plan) {
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
std::vector<Buffer> MakeBufferTable(const plan::Plan& plan) {
  const Extents n(plan);
  Table table;
  table.Add("weights", 4 * n.E);
  table.Class(MemoryClass::kGradients);
  table.Add("gradients", 4 * n.G);
  table.Class(MemoryClass::kOptimizer);
  table.Add("adam.m", 4 * n.G);
  table.Add("adam.v", 4 * n.G);
  table.Add("snapshot", 12 * n.G);
  table.Class(MemoryClass::kActivations);
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) AddLayer(plan, n, layer, table);
  table.Add("final.residual", 4 * n.T * n.H);
  table.Add("final.norm", 4 * n.T * n.H);
  table.Add("final.rstd", 4 * n.T);
  table.Class(MemoryClass::kWorkspace);
  AddWorkspace(plan, n, table);
  return table.Take();
}

}  // namespace coxswain::planner
