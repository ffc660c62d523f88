#include "common/model/saved_modules.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/family.h"
#include "common/status_macros.h"

namespace coxswain::model {
namespace {

constexpr const char kPrefix[] = "base_model.model.";

// "model.norm" of "model.norm.weight".
std::string ModuleOf(const std::string& name) { return name.substr(0, name.rfind('.')); }

std::string LastPartOf(const std::string& module) { return module.substr(module.rfind('.') + 1); }

bool IsOfLinear(const Parameter& parameter) {
  return IsLinear(parameter) || IsBase(parameter, Kind::kBias);
}

// The paths of the modules that hold a tensor of the base.
std::vector<std::string> PathsOf(const ModelConfig& config, const Parameter& parameter) {
  std::vector<std::string> paths = {ModuleOf(parameter.name)};
  if (config.tie_embeddings && IsEmbedding(parameter)) {
    paths.push_back(ModuleOf(OutsideOf(config).head.name));
  }
  return paths;
}

bool Names(const std::string& name, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const auto& path) { return absl::EndsWith(path, name); });
}

absl::Status Refusal(const std::string& name, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("lora.modules_to_save: \"", name, "\" ", why));
}

absl::Status Unknown(const std::vector<Parameter>& table, const ModelConfig& config,
                     const std::string& name) {
  if (name == "score" || name == "classifier") {
    return Refusal(name,
                   "is the head of a reward model or a classifier, whose adapters go with "
                   "method: reward or classification alone");
  }
  std::vector<std::string> known;
  for (const Parameter& parameter : table) {
    if (IsAdapter(parameter) || IsOfLinear(parameter)) {
      continue;
    }
    for (const std::string& path : PathsOf(config, parameter)) {
      const std::string part = LastPartOf(path);
      if (std::find(known.begin(), known.end(), part) == known.end()) known.push_back(part);
    }
  }
  return Refusal(name,
                 absl::StrCat("ends the name of no module; known: ", absl::StrJoin(known, ", ")));
}

absl::Status CheckQkNorms(const std::vector<Parameter>& table, const Architecture& model,
                          const std::vector<bool>& saved) {
  std::set<std::pair<int32_t, int32_t>> trained;  // layer and tensor
  for (size_t i = 0; i < table.size(); ++i) {
    if (saved[i]) trained.insert({table[i].layer, table[i].tensor});
  }
  for (size_t layer = 0; layer < model.blocks.size(); ++layer) {
    for (const PlainOp& op : model.blocks[layer].ops) {
      const auto* norm = std::get_if<QkNormOp>(&op);
      if (norm == nullptr) continue;
      const auto at = static_cast<int32_t>(layer);
      if (trained.count({at, norm->q_weight}) == trained.count({at, norm->k_weight})) continue;
      return absl::InvalidArgumentError(
          "lora.modules_to_save names the norms of q without those of k, or of other layers; the "
          "two are trained together: name both, or neither");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNotAdapted(const std::vector<Parameter>& table, const ModelConfig& config,
                             const std::vector<bool>& saved) {
  std::set<Kind> trained;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!saved[i]) continue;
    trained.insert(table[i].kind);
    if (config.tie_embeddings && IsEmbedding(table[i])) trained.insert(Kind::kHead);
  }
  for (const Parameter& parameter : table) {
    const bool outside = parameter.kind == Kind::kEmbedding || parameter.kind == Kind::kHead;
    if (!IsLoraA(parameter) || !outside || trained.count(parameter.kind) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("lora.modules_to_save trains the weight that \"", ModuleOf(parameter.name),
                     "\" of lora.target_modules adapts; name the module in one of the two"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<bool>> SavedModules(const std::vector<Parameter>& table,
                                               const ModelConfig& config,
                                               const std::vector<std::string>& names) {
  std::vector<bool> saved(table.size(), false);
  for (const std::string& name : names) {
    // PEFT lists it beside "score" in the adapter of every classifier.
    if (config.labels > 0 && name == "classifier") continue;
    bool found = false;
    for (size_t i = 0; i < table.size() && !name.empty(); ++i) {
      if (IsAdapter(table[i]) || IsBuffer(table[i]) || !Names(name, PathsOf(config, table[i])))
        continue;
      if (IsOfLinear(table[i])) {
        return Refusal(name, absl::StrCat("names ", ModuleOf(table[i].name),
                                          ", a linear of the blocks; adapt it by "
                                          "lora.target_modules, or train all with adapter: none"));
      }
      saved[i] = found = true;
    }
    if (!found) return Unknown(table, config, name);
  }
  RETURN_IF_ERROR(CheckQkNorms(table, ArchitectureOf(config), saved));
  RETURN_IF_ERROR(CheckNotAdapted(table, config, saved));
  return saved;
}

std::vector<std::string> ListedModules(const ModelConfig& config,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> listed = names;
  if (!config.tie_embeddings) return listed;
  const Outside outside = OutsideOf(config);
  const std::string both[] = {ModuleOf(outside.embedding.name), ModuleOf(outside.head.name)};
  const auto named = [&](const std::string& path) {
    return std::any_of(names.begin(), names.end(),
                       [&](const auto& name) { return Names(name, {path}); });
  };
  if (named(both[0]) == named(both[1])) return listed;
  listed.push_back(LastPartOf(named(both[0]) ? both[1] : both[0]));
  return listed;
}

std::vector<std::string> AdapterFileKeys(const ModelConfig& config, const Parameter& parameter) {
  if (IsAdapter(parameter)) return {parameter.name};
  std::vector<std::string> keys = {absl::StrCat(kPrefix, parameter.name)};
  if (config.tie_embeddings && IsEmbedding(parameter)) {
    keys.push_back(absl::StrCat(kPrefix, OutsideOf(config).head.name));
  }
  return keys;
}

// Source: transformers 5 conversion_mapping.py (block_sparse_moe becomes mlp).

namespace {

// "mlp.gate" of "mlp.gate.weight".
std::string Above(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

std::string RouterModule(const Block& block, const TensorSpec& router) {
  const std::string in_files = Above(router.name);
  const auto stack = std::find_if(block.tensors.begin(), block.tensors.end(),
                                  [](const auto& one) { return one.kind == Kind::kExperts; });
  if (stack == block.tensors.end()) return in_files;
  return Above(Above(stack->name)) + in_files.substr(in_files.rfind('.'));
}

}  // namespace coxswain::model
