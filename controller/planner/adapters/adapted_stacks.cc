// Source: peft 0.21 tuners/tuners_utils.py (_inject_parameters).
#include "controller/planner/adapters/adapted_stacks.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/safetensors/safetensors.h"
#include "common/model/family.h"
#include "common/model/files/stacked_files.h"
#include "common/model/parameter_table.h"
#include "common/status_macros.h"
#include "controller/planner/adapters/target_modules.h"

namespace coxswain::planner {
namespace {

// The stacks of a model, each with the parameters of its blocks.
struct Stack {
  std::string name;  // "mlp.experts.down_proj"
  std::vector<model::Parameter> blocks;
};

std::vector<Stack> StacksOf(const model::Architecture& model) {
  std::vector<Stack> stacks;
  for (const model::Parameter& parameter : model::BaseParameterTable(model)) {
    if (!model::IsBase(parameter, model::Kind::kExperts)) continue;
    const std::string prefix = absl::StrCat(model.outside.layers, parameter.layer, ".");
    const std::string name = parameter.name.substr(prefix.size());
    auto stack = std::find_if(stacks.begin(), stacks.end(),
                              [&name](const Stack& other) { return other.name == name; });
    if (stack == stacks.end()) stack = stacks.insert(stacks.end(), {name, {}});
    stack->blocks.push_back(parameter);
  }
  return stacks;
}

bool Means(const std::vector<std::string>& names, const std::string& whole) {
  return std::any_of(names.begin(), names.end(), [&whole](const std::string& name) {
    return whole == name || absl::EndsWith(whole, absl::StrCat(".", name));
  });
}

std::string ModuleOf(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

// The experts of one block, as lora.target_modules might name them: the linears of each, and the
// whole.
std::vector<NamedModule> SingleExpertsOf(const model::Architecture& model,
                                         const std::vector<Stack>& stacks) {
  std::vector<NamedModule> experts;
  const auto add = [&experts](const model::Parameter& block, const std::string& tensor) {
    const std::string name = ModuleOf(tensor);
    experts.push_back({.name = name, .layer = block.layer, .in_files = name});
  };
  for (const Stack& stack : stacks) {
    const model::Parameter& block = stack.blocks.front();
    add(block, block.name);
    for (const model::StackedFile& file : model::StackedFilesOf(model, block)) {
      for (int64_t expert = 0; expert < block.batch && file.one_each(); ++expert) {
        add(block, file.NameOf(expert));
      }
    }
  }
  return experts;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> MeantStacks(const std::vector<std::string>& names,
                                                     const model::ModelConfig& model) {
  std::vector<std::string> meant;
  for (const Stack& stack : StacksOf(model::ArchitectureOf(model))) {
    const auto count = std::count_if(
        stack.blocks.begin(), stack.blocks.end(),
        [&names](const model::Parameter& parameter) { return Means(names, parameter.name); });
    if (count == 0) continue;
    if (count < static_cast<std::ptrdiff_t>(stack.blocks.size())) {
      return absl::InvalidArgumentError(absl::StrCat("target_parameters means ", stack.name, " in ",
                                                     count, " of ", stack.blocks.size(),
                                                     " blocks; all of them are supported"));
    }
    meant.push_back(stack.name);
  }
  return meant;
}

std::set<std::string> NamesOfStacks(const std::vector<std::string>& names,
                                    const model::ModelConfig& model) {
  std::set<std::string> whole;
  for (const Stack& stack : StacksOf(model::ArchitectureOf(model))) {
    for (const model::Parameter& parameter : stack.blocks) {
      if (Means(names, parameter.name)) whole.insert(parameter.name);
    }
  }
  return whole;
}

std::set<std::string> NamesOfGateUpStacks(const std::vector<std::string>& names,
                                          const model::ModelConfig& model) {
  const model::Architecture architecture = model::ArchitectureOf(model);
  std::set<std::string> whole = NamesOfStacks(names, model);
  for (const Stack& stack : StacksOf(architecture)) {
    for (const model::Parameter& parameter : stack.blocks) {
      const model::Block& block = architecture.blocks[static_cast<size_t>(parameter.layer)];
      if (!model::FeedsGate(block, parameter.tensor)) whole.erase(parameter.name);
    }
  }
  return whole;
}

absl::Status CheckTargetsOfExperts(const config::LoraSpec& lora, const model::ModelConfig& model) {
  const model::Architecture architecture = model::ArchitectureOf(model);
  const std::vector<Stack> stacks = StacksOf(architecture);
  if (stacks.empty()) return absl::OkStatus();
  const std::vector<NamedModule> single_experts = SingleExpertsOf(architecture, stacks);
  const std::vector<NamedModule> modules = ModulesOf(model);
  for (const std::string& target : lora.target_modules) {
    ASSIGN_OR_RETURN(const std::set<std::string> meant, MeantModules({target}, modules));
    const bool adapts = std::any_of(modules.begin(), modules.end(), [&meant](const auto& module) {
      return (module.adaptable || module.router) && meant.count(module.name) > 0;
    });
    if (adapts || target == "all-linear") continue;
    ASSIGN_OR_RETURN(const std::set<std::string> experts, MeantModules({target}, single_experts));
    if (experts.empty()) continue;
    const auto name = [](std::string* out, const Stack& stack) { out->append(stack.name); };
    return absl::InvalidArgumentError(absl::StrCat(
        "lora.target_modules: \"", target,
        "\" is of single experts, which lie in stacks; leave it ",
        "out, and set lora.target_parameters: [", absl::StrJoin(stacks, ", ", name), "]"));
  }
  const absl::Status status = MeantStacks(lora.target_parameters, model).status();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("lora.", std::string(status.message())));
}

std::vector<std::string> StacksByExpert(const std::string& directory,
                                        const model::ModelConfig& model) {
  std::vector<std::string> found;
  const auto file = SafetensorsFile::Open(absl::StrCat(directory, "/adapter_model.safetensors"));
  if (!file.ok()) return found;
  const model::Architecture architecture = model::ArchitectureOf(model);
  for (const Stack& stack : StacksOf(architecture)) {
    const std::vector<model::StackedFile> files =
        model::StackedFilesOf(architecture, stack.blocks.front());
    const bool any =
        std::any_of(files.begin(), files.end(), [&file](const model::StackedFile& linear) {
          return linear.one_each() &&
                 (*file)->Find(model::SingleExpertKey(linear, 0, model::Part::kLoraA)) != nullptr;
        });
    if (any) found.push_back(stack.name);
  }
  return found;
}

}  // namespace coxswain::planner
