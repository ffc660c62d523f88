#include "common/model/parameter_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/family.h"
#include "common/model/saved_modules.h"

namespace coxswain::model {
namespace {

constexpr char kWeight[] = ".weight";

// "self_attn.q_proj" of "self_attn.q_proj.weight".
std::string ModuleOf(const TensorSpec& tensor) {
  return tensor.name.substr(0, tensor.name.size() - std::strlen(kWeight));
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
  const TensorSpec* tensor = nullptr;
  int32_t number = kNoTensor;
  std::string module;  // below the model
  int64_t rank = 0;
};

// Those linears of each product of a block that are adapted: their A are adjacent, then their B.
std::vector<std::vector<Target>> TargetsOf(const Block& block, const std::string& prefix,
                                           const LoraTable& lora) {
  std::vector<std::vector<Target>> products;
  for (const PlainOp& op : block.ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (linear == nullptr) continue;
    std::vector<Target>& product = products.emplace_back();
    for (const LinearMember& member : linear->members) {
      const TensorSpec& tensor = block.tensors[static_cast<size_t>(member.weight)];
      const std::string module = prefix + ModuleOf(tensor);
      const bool chosen = IsAllLinear(lora.targets) || IsNamed(lora, module);
      if (chosen) product.push_back({&tensor, member.weight, module, lora.rank});
    }
  }
  return products;
}

bool IsNamedParameter(const LoraTable& lora, const std::string& name) {
  return std::any_of(lora.parameters.begin(), lora.parameters.end(), [&name](const auto& end) {
    return name == end || absl::EndsWith(name, "." + end);
  });
}

// The routers that are adapted, named as PEFT does or as the files do.
std::vector<Target> RoutersOf(const Block& block, const std::string& prefix,
                              const LoraTable& lora) {
  std::vector<Target> routers;
  for (size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorSpec& tensor = block.tensors[i];
    if (tensor.kind != Kind::kRouter) continue;
    const std::string module = prefix + RouterModule(block, tensor);
    const bool named = IsNamedParameter(lora, absl::StrCat(module, kWeight)) ||
                       IsNamedParameter(lora, prefix + tensor.name);
    if (named) routers.push_back({&tensor, static_cast<int32_t>(i), module, lora.rank});
  }
  return routers;
}

// The stacks of experts that are adapted, in memory order.
std::vector<Target> StacksOf(const Block& block, const std::string& prefix, const LoraTable& lora) {
  std::vector<Target> stacks;
  for (size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorSpec& tensor = block.tensors[i];
    const std::string name = prefix + tensor.name;
    if (tensor.kind != Kind::kExperts || !IsNamedParameter(lora, name)) continue;
    const auto number = static_cast<int32_t>(i);
    const bool other = lora.gate_up_rank > 0 && FeedsGate(block, number);
    stacks.push_back({&tensor, number, name, other ? lora.gate_up_rank : lora.rank});
  }
  return stacks;
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

  void Add(const std::string& prefix, const TensorSpec& tensor, int32_t number) {
    table_->push_back({.name = prefix + tensor.name,
                       .kind = tensor.kind,
                       .reach = tensor.reach,
                       .layer = layer_,
                       .tensor = number,
                       .packed = tensor.packed,
                       .batch = tensor.batch,
                       .rows = tensor.batch * tensor.rows,
                       .cols = tensor.cols,
                       .unit = unit_});
  }

  void AddLora(const std::vector<Target>& targets, const LoraTable& lora) {
    for (const Target& t : targets) {
      AddPart(t, Part::kLoraA, ".lora_A.weight", t.rank, t.tensor->cols);
    }
    for (const Target& t : targets) {
      AddPart(t, Part::kLoraB, ".lora_B.weight", t.tensor->rows, t.rank);
    }
    if (!lora.dora) return;
    for (const Target& t : targets) {
      AddPart(t, Part::kMagnitude, ".lora_magnitude_vector", t.tensor->rows, 1);
    }
  }

  // All stacks of a block are of one module, whose wrappers nest: the last is the outer one.
  // Source: peft ParamWrapper.
  void AddLoraOfExperts(const std::vector<Target>& stacks) {
    for (size_t i = 0; i < stacks.size(); ++i) {
      const TensorSpec& tensor = *stacks[i].tensor;
      Target target = stacks[i];
      target.module = target.module.substr(0, target.module.rfind('.'));
      for (size_t outer = i + 1; outer < stacks.size(); ++outer) target.module += ".base_layer";
      for (const Part part : {Part::kLoraA, Part::kLoraB}) {
        const bool a = part == Part::kLoraA;
        AddPart(target, part, a ? ".lora_A.weight" : ".lora_B.weight",
                tensor.batch * (a ? target.rank : tensor.rows), a ? tensor.cols : target.rank);
        table_->back().batch = tensor.batch;
      }
    }
  }

  void AddLoraOutside(const TensorSpec& tensor, const LoraTable& lora) {
    if (!IsNamed(lora, tensor)) return;
    const bool embedding = tensor.kind == Kind::kEmbedding;
    const Target t{&tensor, embedding ? kEmbeddingTensor : kHeadTensor, ModuleOf(tensor),
                   lora.rank};
    if (!embedding) return AddLora({t}, lora);
    AddPart(t, Part::kLoraA, ".lora_embedding_A", tensor.rows, lora.rank);
    AddPart(t, Part::kLoraB, ".lora_embedding_B", tensor.cols, lora.rank);
  }

 private:
  void AddPart(const Target& target, Part part, const char* suffix, int64_t rows, int64_t cols) {
    const TensorSpec& tensor = *target.tensor;
    table_->push_back({.name = absl::StrCat("base_model.model.", target.module, suffix),
                       .kind = tensor.kind,
                       .part = part,
                       .reach = tensor.reach,
                       .layer = layer_,
                       .tensor = target.number,
                       .packed = part == Part::kLoraA ? tensor.packed : kNoTensor,
                       .rows = rows,
                       .cols = cols,
                       .unit = unit_});
  }

  std::vector<Parameter>* table_;
  const int32_t unit_;
  const int32_t layer_;
};

std::string LayerPrefix(const Outside& outside, int64_t layer) {
  return absl::StrCat(outside.layers, layer, ".");
}

// The modules that adapters may name: last parts, each once, then whole names.
struct KnownModules {
  std::vector<std::string> last_parts, whole;

  void Add(const std::string& prefix, const TensorSpec& tensor) {
    const std::string module = ModuleOf(tensor);
    whole.push_back(prefix + module);
    const std::string last = LastPart(module);
    if (std::find(last_parts.begin(), last_parts.end(), last) == last_parts.end()) {
      last_parts.push_back(last);
    }
  }
  bool Has(const std::string& target) const {
    const auto in = [&](const auto& names) {
      return std::find(names.begin(), names.end(), target) != names.end();
    };
    return in(last_parts) || in(whole);
  }
};

KnownModules ModulesOf(const Architecture& model) {
  KnownModules known;
  for (size_t layer = 0; layer < model.blocks.size(); ++layer) {
    const std::string prefix = LayerPrefix(model.outside, static_cast<int64_t>(layer));
    for (const TensorSpec& tensor : model.blocks[layer].tensors) {
      if (tensor.kind == Kind::kLinear) known.Add(prefix, tensor);
    }
  }
  for (const TensorSpec& tensor : {model.outside.embedding, model.outside.head}) {
    known.Add("", tensor);
  }
  return known;
}

absl::Status CheckTargets(const LoraTable& lora, const Architecture& model) {
  const std::vector<std::string>& targets = lora.targets;
  if (IsAllLinear(targets)) return absl::OkStatus();
  for (const TensorSpec& tensor : {model.outside.embedding, model.outside.head}) {
    if (!lora.dora || !IsNamed(lora, tensor)) continue;
    return absl::UnimplementedError(
        absl::StrCat("lora.target_modules: \"", LastPart(ModuleOf(tensor)),
                     "\" has no DoRA; leave it out, or set use_dora: ", "false"));
  }
  const KnownModules known = ModulesOf(model);
  const std::string list = absl::StrJoin(known.last_parts, ", ");
  if (targets.empty() && lora.parameters.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora.target_modules is empty; known: all-linear, ", list));
  }
  for (const std::string& target : targets) {
    if (known.Has(target)) continue;
    return absl::InvalidArgumentError(absl::StrCat("lora.target_modules: unknown module \"", target,
                                                   "\"; known: all-linear alone, or ", list));
  }
  return absl::OkStatus();
}

// "mlp.experts.down_proj" and "mlp.gate.weight" of some block.
std::vector<std::string> ParametersOf(const Architecture& model) {
  std::vector<std::string> known;
  const auto add = [&known](const std::string& name) {
    if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  };
  for (const Block& block : model.blocks) {
    for (const TensorSpec& tensor : block.tensors) {
      if (tensor.kind == Kind::kExperts) add(tensor.name);
      if (tensor.kind == Kind::kRouter) add(absl::StrCat(RouterModule(block, tensor), kWeight));
    }
  }
  return known;
}

// Each name means a stack or the weight of a router in some block; neither has DoRA.
absl::Status CheckParameters(const LoraTable& lora, const Architecture& model) {
  for (const std::string& name : lora.parameters) {
    LoraTable one;
    one.parameters = {name};
    bool found = false;
    for (size_t layer = 0; layer < model.blocks.size() && !found; ++layer) {
      const std::string prefix = LayerPrefix(model.outside, static_cast<int64_t>(layer));
      const Block& block = model.blocks[layer];
      found = !StacksOf(block, prefix, one).empty() || !RoutersOf(block, prefix, one).empty();
    }
    if (!found) {
      const std::vector<std::string> known = ParametersOf(model);
      return absl::InvalidArgumentError(absl::StrCat(
          "lora.target_parameters: \"", name, "\" names no stack of experts and no router; known: ",
          known.empty() ? "none, the model has no experts" : absl::StrJoin(known, ", ")));
    }
    if (!lora.dora) continue;
    return absl::UnimplementedError(
        absl::StrCat("lora.target_parameters: \"", name,
                     "\" has no DoRA; leave it out, or set use_dora: ", "false"));
  }
  return absl::OkStatus();
}

}  // namespace

bool FeedsGate(const Block& block, int32_t number) {
  return std::any_of(block.ops.begin(), block.ops.end(), [number](const PlainOp& op) {
    const auto* experts = std::get_if<GroupedLinearOp>(&op);
    return experts != nullptr && experts->weight == number && experts->feeds_activation;
  });
}

std::vector<Parameter> BaseParameterTable(const Architecture& model) {
  std::vector<Parameter> table;
  const Outside& outside = model.outside;
  const auto layers = static_cast<int32_t>(model.blocks.size());
  UnitTable(&table, 0, -1).Add("", outside.embedding, kEmbeddingTensor);
  for (int32_t layer = 0; layer < layers; ++layer) {
    UnitTable unit(&table, layer + 1, layer);
    int32_t number = 0;
    for (const TensorSpec& tensor : model.blocks[static_cast<size_t>(layer)].tensors) {
      unit.Add(LayerPrefix(outside, layer), tensor, number++);
    }
  }
  UnitTable head(&table, layers + 1, -1);
  int32_t number = kFinalNormTensor;
  for (const TensorSpec& tensor : outside.final_norm) head.Add("", tensor, number++);
  if (!outside.tied) head.Add("", outside.head, kHeadTensor);
  return table;
}

absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const Architecture& model, const LoraTable& lora) {
  if (lora.rank < 1) {
    return absl::InvalidArgumentError(absl::StrCat("lora.r is ", lora.rank, ", must be > 0"));
  }
  for (const absl::Status& status : {CheckTargets(lora, model), CheckParameters(lora, model)}) {
    if (!status.ok()) return status;
  }
  const Outside& outside = model.outside;
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
    const Block& block = model.blocks[static_cast<size_t>(layer)];
    for (const auto& product : TargetsOf(block, LayerPrefix(outside, layer), lora)) {
      unit.AddLora(product, lora);
    }
    unit.AddLora(RoutersOf(block, LayerPrefix(outside, layer), lora), lora);
    unit.AddLoraOfExperts(StacksOf(block, LayerPrefix(outside, layer), lora));
  }
  return table;
}

std::vector<Parameter> BaseParameterTable(const ModelConfig& config) {
  return BaseParameterTable(ArchitectureOf(config));
}

absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const ModelConfig& config, const LoraTable& lora) {
  return WithLora(std::move(base), ArchitectureOf(config), lora);
}

}  // namespace coxswain::model
