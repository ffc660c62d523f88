#include "common/model/parameter_table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/family.h"

namespace coxswain::model {
namespace {

constexpr std::string_view kWeight = ".weight";

// "self_attn.q_proj" of "self_attn.q_proj.weight".
std::string ModuleOf(const TensorSpec& tensor) {
  return tensor.name.substr(0, tensor.name.size() - kWeight.size());
}

// What lora.target_modules calls it: "q_proj".
std::string LastPart(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// By the whole name of a module or its last part.
bool IsNamed(const LoraTable& lora, const std::string& module) {
  return std::find(lora.targets.begin(), lora.targets.end(), module) != lora.targets.end() ||
         std::find(lora.targets.begin(), lora.targets.end(), LastPart(module)) !=
             lora.targets.end();
}

bool IsAllLinear(const std::vector<std::string>& targets) {
  return targets == std::vector<std::string>{"all-linear"};
}

// A linear of a block as adapters see it.
struct Target {
  Role weight{};
  std::string module;  // below the model
  int64_t out = 0, in = 0;
};

// Those linears of each pack of a block that are adapted: their A are adjacent, then their B.
std::vector<std::vector<Target>> TargetsOf(const Block& block, const std::string& prefix,
                                           const LoraTable& lora) {
  std::vector<std::vector<Target>> packs;
  for (const Op& op : block.ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (linear == nullptr) continue;
    std::vector<Target>& pack = packs.emplace_back();
    for (const LinearMember& member : linear->members) {
      const auto tensor = std::find_if(block.tensors.begin(), block.tensors.end(),
                                       [&](const auto& t) { return t.role == member.weight; });
      const std::string module = ModuleOf(*tensor);
      const bool chosen = IsAllLinear(lora.targets) || IsNamed(lora, prefix + module);
      if (chosen) pack.push_back({member.weight, prefix + module, tensor->rows, tensor->cols});
    }
  }
  return packs;
}

// Outside the blocks only what is named is adapted.
bool IsNamed(const LoraTable& lora, const TensorSpec& tensor) {
  return IsNamed(lora, ModuleOf(tensor));
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

  void Add(const std::string& prefix, const TensorSpec& tensor) {
    Add(prefix + tensor.name, tensor.role, tensor.rows, tensor.cols);
  }

  void AddLora(const std::vector<Target>& targets, const LoraTable& lora) {
    for (const Target& t : targets) {
      Add(Key(t, ".lora_A.weight"), LoraA(t.weight), lora.rank, t.in);
    }
    for (const Target& t : targets) {
      Add(Key(t, ".lora_B.weight"), LoraB(t.weight), t.out, lora.rank);
    }
    if (!lora.dora) return;
    for (const Target& t : targets) {
      Add(Key(t, ".lora_magnitude_vector"), LoraMagnitude(t.weight), t.out);
    }
  }

  void AddLoraOutside(const TensorSpec& tensor, const LoraTable& lora) {
    if (!IsNamed(lora, tensor)) return;
    const Target t{tensor.role, ModuleOf(tensor), tensor.rows, tensor.cols};
    if (tensor.role != Role::kEmbedding) return AddLora({t}, lora);
    Add(Key(t, ".lora_embedding_A"), LoraA(t.weight), t.out, lora.rank);
    Add(Key(t, ".lora_embedding_B"), LoraB(t.weight), t.in, lora.rank);
  }

 private:
  static std::string Key(const Target& target, const char* suffix) {
    return absl::StrCat("base_model.model.", target.module, suffix);
  }

  std::vector<Parameter>* table_;
  const int32_t unit_;
  const int32_t layer_;
};

std::string LayerPrefix(const Outside& outside, int64_t layer) {
  return absl::StrCat(outside.layers, layer, ".");
}

absl::Status CheckTargets(const LoraTable& lora, const ModelConfig& config,
                          const Outside& outside) {
  const Block block = BlockOf(config, 0);
  const std::vector<std::string>& targets = lora.targets;
  if (IsAllLinear(targets)) return absl::OkStatus();
  std::vector<std::string> known;
  for (const TensorSpec& tensor : block.tensors) {
    if (IsLinear(tensor.role)) known.push_back(LastPart(ModuleOf(tensor)));
  }
  for (const TensorSpec& tensor : {outside.embedding, outside.head}) {
    known.push_back(LastPart(ModuleOf(tensor)));
    if (!lora.dora || !IsNamed(lora, tensor)) continue;
    return absl::UnimplementedError(
        absl::StrCat("lora.target_modules: \"", known.back(),
                     "\" has no DoRA; leave it out, or set use_dora: ", "false"));
  }
  const std::string list = absl::StrJoin(known, ", ");
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorSpec& tensor : block.tensors) {
      if (IsLinear(tensor.role)) known.push_back(LayerPrefix(outside, layer) + ModuleOf(tensor));
    }
  }
  for (const TensorSpec& tensor : {outside.embedding, outside.head}) {
    known.push_back(ModuleOf(tensor));
  }
  if (targets.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora.target_modules is empty; known: all-linear, ", list));
  }
  for (const std::string& target : targets) {
    if (std::find(known.begin(), known.end(), target) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("lora.target_modules: unknown module \"",
                                                     target, "\"; known: all-linear alone, or ",
                                                     list));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Parameter> BaseParameterTable(const ModelConfig& config) {
  std::vector<Parameter> table;
  const Outside outside = OutsideOf(config);
  const auto layers = static_cast<int32_t>(config.num_layers);
  UnitTable(&table, 0, -1).Add("", outside.embedding);
  for (int32_t layer = 0; layer < layers; ++layer) {
    UnitTable unit(&table, layer + 1, layer);
    for (const TensorSpec& tensor : BlockOf(config, layer).tensors) {
      unit.Add(LayerPrefix(outside, layer), tensor);
    }
  }
  UnitTable head(&table, layers + 1, -1);
  for (const TensorSpec& tensor : outside.final_norm) head.Add("", tensor);
  if (!config.tie_embeddings) head.Add("", outside.head);
  return table;
}

absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const ModelConfig& config, const LoraTable& lora) {
  if (lora.rank < 1) {
    return absl::InvalidArgumentError(absl::StrCat("lora.r is ", lora.rank, ", must be > 0"));
  }
  const Outside outside = OutsideOf(config);
  const absl::Status status = CheckTargets(lora, config, outside);
  if (!status.ok()) return status;
  std::vector<Parameter> table;
  for (size_t i = 0; i < base.size(); ++i) {
    table.push_back(base[i]);
    const bool last_of_unit = i + 1 == base.size() || base[i + 1].unit != base[i].unit;
    const int32_t layer = base[i].layer;
    if (!last_of_unit) continue;
    UnitTable unit(&table, base[i].unit, layer);
    if (layer < 0) {
      unit.AddLoraOutside(base[i].unit == 0 ? outside.embedding : outside.head, lora);
      continue;
    }
    const Block block = BlockOf(config, layer);
    for (const auto& pack : TargetsOf(block, LayerPrefix(outside, layer), lora)) {
      unit.AddLora(pack, lora);
    }
  }
  return table;
}

}  // namespace coxswain::model
