#include "common/model/parameter_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

struct Linear {
  const char* module;  // below model.layers.<i>.
  Role weight;
  Role bias;
  int64_t rows;
  int64_t cols;
  bool has_bias;
};

// Linears that read the same input are one group; their LoRA A are adjacent, then their B.
using SharedInput = std::vector<Linear>;

SharedInput QkvLinears(const ModelConfig& c) {
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  return {{"self_attn.q_proj", Role::kQ, Role::kQBias, q, c.hidden_size, c.qkv_bias},
          {"self_attn.k_proj", Role::kK, Role::kKBias, kv, c.hidden_size, c.qkv_bias},
          {"self_attn.v_proj", Role::kV, Role::kVBias, kv, c.hidden_size, c.qkv_bias}};
}

SharedInput OutputLinear(const ModelConfig& c) {
  return {{"self_attn.o_proj", Role::kO, Role::kOBias, c.hidden_size, c.num_heads * c.head_dim,
           c.output_bias}};
}

SharedInput GateUpLinears(const ModelConfig& c) {
  return {
      {"mlp.gate_proj", Role::kGate, Role::kGateBias, c.intermediate_size, c.hidden_size,
       c.mlp_bias},
      {"mlp.up_proj", Role::kUp, Role::kUpBias, c.intermediate_size, c.hidden_size, c.mlp_bias}};
}

SharedInput DownLinear(const ModelConfig& c) {
  return {{"mlp.down_proj", Role::kDown, Role::kDownBias, c.hidden_size, c.intermediate_size,
           c.mlp_bias}};
}

// Appends parameters of one unit.
class UnitTable {
 public:
  UnitTable(std::vector<Parameter>* table, int32_t unit, int32_t layer)
      : table_(table), unit_(unit), layer_(layer) {}

  void Add(std::string name, Role role, int64_t rows, int64_t cols = 1) {
    table_->push_back(Parameter{.name = std::move(name),
                                .role = role,
                                .layer = layer_,
                                .rows = rows,
                                .cols = cols,
                                .unit = unit_});
  }

  void AddWeights(const SharedInput& linears) {
    for (const Linear& l : linears) Add(Name(l, ".weight"), l.weight, l.rows, l.cols);
  }

  void AddBiases(const SharedInput& linears) {
    for (const Linear& l : linears) {
      if (l.has_bias) Add(Name(l, ".bias"), l.bias, l.rows);
    }
  }

  void AddLora(const SharedInput& linears, const LoraTable& lora) {
    const std::vector<std::string>& targets = lora.targets;
    SharedInput chosen;
    for (const Linear& l : linears) {
      const std::string module = std::string(l.module).substr(std::string(l.module).find('.') + 1);
      if (targets == std::vector<std::string>{"all-linear"} ||
          std::find(targets.begin(), targets.end(), module) != targets.end()) {
        chosen.push_back(l);
      }
    }
    for (const Linear& l : chosen) {
      Add("base_model.model." + Name(l, ".lora_A.weight"), LoraA(l.weight), lora.rank, l.cols);
    }
    for (const Linear& l : chosen) {
      Add("base_model.model." + Name(l, ".lora_B.weight"), LoraB(l.weight), l.rows, lora.rank);
    }
    if (!lora.dora) return;
    for (const Linear& l : chosen) {
      Add("base_model.model." + Name(l, ".lora_magnitude_vector"), LoraMagnitude(l.weight), l.rows);
    }
  }

 private:
  std::string Name(const Linear& linear, const char* suffix) const {
    return absl::StrCat("model.layers.", layer_, ".", linear.module, suffix);
  }

  std::vector<Parameter>* table_;
  const int32_t unit_;
  const int32_t layer_;
};

void AddBlock(const ModelConfig& c, int32_t layer, std::vector<Parameter>* table) {
  UnitTable unit(table, layer + 1, layer);
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const SharedInput gate_up = GateUpLinears(c);
  const SharedInput down = DownLinear(c);
  unit.Add(prefix + "input_layernorm.weight", Role::kInputNorm, c.hidden_size);
  unit.AddWeights(QkvLinears(c));
  unit.AddBiases(QkvLinears(c));
  if (c.qk_norm) {
    unit.Add(prefix + "self_attn.q_norm.weight", Role::kQNorm, c.head_dim);
    unit.Add(prefix + "self_attn.k_norm.weight", Role::kKNorm, c.head_dim);
  }
  unit.AddWeights(OutputLinear(c));
  unit.AddBiases(OutputLinear(c));
  unit.Add(prefix + "post_attention_layernorm.weight", Role::kPostAttentionNorm, c.hidden_size);
  unit.AddWeights(gate_up);
  unit.AddWeights(down);
  unit.AddBiases(gate_up);
  unit.AddBiases(down);
}

constexpr std::array<const char*, 7> kModules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                 "gate_proj", "up_proj", "down_proj"};

absl::Status CheckTargets(const std::vector<std::string>& targets) {
  if (targets == std::vector<std::string>{"all-linear"}) return absl::OkStatus();
  std::string known;
  for (const char* module : kModules) absl::StrAppend(&known, ", ", module);
  if (targets.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora.target_modules is empty; known: all-linear", known));
  }
  for (const std::string& target : targets) {
    if (std::find(kModules.begin(), kModules.end(), target) == kModules.end()) {
      return absl::InvalidArgumentError(absl::StrCat("lora.target_modules: unknown module \"",
                                                     target, "\"; known: all-linear alone, or",
                                                     known.substr(1)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Parameter> BaseParameterTable(const ModelConfig& config) {
  std::vector<Parameter> table;
  const auto layers = static_cast<int32_t>(config.num_layers);
  UnitTable(&table, 0, -1)
      .Add("model.embed_tokens.weight", Role::kEmbedding, config.vocab_size, config.hidden_size);
  for (int32_t layer = 0; layer < layers; ++layer) AddBlock(config, layer, &table);
  UnitTable head(&table, layers + 1, -1);
  head.Add("model.norm.weight", Role::kFinalNorm, config.hidden_size);
  if (!config.tie_embeddings) {
    head.Add("lm_head.weight", Role::kLmHead, config.vocab_size, config.hidden_size);
  }
  return table;
}

absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const ModelConfig& config, const LoraTable& lora) {
  if (lora.rank < 1) {
    return absl::InvalidArgumentError(absl::StrCat("lora.r is ", lora.rank, ", must be > 0"));
  }
  if (const absl::Status status = CheckTargets(lora.targets); !status.ok()) return status;
  std::vector<Parameter> table;
  for (size_t i = 0; i < base.size(); ++i) {
    table.push_back(base[i]);
    const bool last_of_unit = i + 1 == base.size() || base[i + 1].unit != base[i].unit;
    if (!last_of_unit || base[i].layer < 0) continue;
    UnitTable unit(&table, base[i].unit, base[i].layer);
    unit.AddLora(QkvLinears(config), lora);
    unit.AddLora(OutputLinear(config), lora);
    unit.AddLora(GateUpLinears(config), lora);
    unit.AddLora(DownLinear(config), lora);
  }
  return table;
}

}  // namespace coxswain::model
