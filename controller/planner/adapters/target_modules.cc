// Source: peft 0.21 utils/transformers_weight_conversion.py (_convert_peft_config_moe): a router
// among the modules becomes a parameter.
#include "controller/planner/adapters/target_modules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/saved_modules.h"
#include "common/name_pattern.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

// One entry of lora.target_modules, read once.
struct Target {
  std::string text;
  std::optional<NamePattern> pattern;

  bool Means(const std::string& name) const {
    if (pattern.has_value()) return pattern->Matches(name);
    return name == text || absl::EndsWith(name, "." + text);
  }
  bool Means(const NamedModule& module) const {
    return Means(module.name) || Means(module.in_files);
  }
};

absl::StatusOr<Target> ReadTarget(const std::string& text) {
  Target target{.text = text, .pattern = std::nullopt};
  if (!NamePattern::Is(text)) return target;
  absl::StatusOr<NamePattern> pattern = NamePattern::Compile(text);
  if (!pattern.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("lora.target_modules: \"", text, "\" ",
                                                   std::string(pattern.status().message())));
  }
  target.pattern = *std::move(pattern);
  return target;
}

bool IsPlainName(const std::string& text) {
  return !NamePattern::Is(text) && !absl::StrContains(text, '.');
}

constexpr char kWeight[] = ".weight";

// The modules that `text` means, one at least where it is no plain name.
absl::StatusOr<std::vector<NamedModule>> MeantBy(const std::string& text,
                                                 const std::vector<NamedModule>& modules) {
  ASSIGN_OR_RETURN(const Target target, ReadTarget(text));
  std::vector<NamedModule> meant;
  for (const NamedModule& module : modules) {
    if (target.Means(module)) meant.push_back(module);
  }
  if (!meant.empty() || IsPlainName(text)) return meant;
  return absl::InvalidArgumentError(
      absl::StrCat("lora.target_modules: \"", text, "\" matches no module; a name such as \"",
                   ExampleOf(modules), "\" is matched as a whole by a pattern, from a dot to ",
                   "its end by a path"));
}

// A plain name means the linears of this name wherever they are, and is checked with the table.
absl::Status AddTarget(const std::string& text, const std::vector<NamedModule>& meant,
                       AdapterTargets* targets) {
  const bool plain = IsPlainName(text);
  bool routers_alone = !meant.empty();
  for (const NamedModule& module : meant) {
    routers_alone = routers_alone && module.router;
    if (module.router) {
      targets->parameters.push_back(absl::StrCat(module.name, kWeight));
    } else if (!plain && !module.adaptable) {
      return absl::InvalidArgumentError(
          absl::StrCat("lora.target_modules: \"", text, "\" matches ", module.name,
                       ", which is no linear, router, embedding or head; narrow it"));
    } else if (!plain) {
      targets->modules.push_back(module.name);
    }
  }
  if (plain && !routers_alone) targets->modules.push_back(text);
  return absl::OkStatus();
}

// Source: peft 0.21 tuners/lora/layer.py (ParamWrapper), which refuses both.
absl::Status CheckRouters(const config::LoraSpec& lora, const std::string& key,
                          const std::string& name) {
  if (lora.dropout == 0 && !lora.use_dora) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      key, ": \"", name, "\" is a router, whose adapter has no ",
      lora.use_dora
          ? "DoRA; leave it out, or set lora.use_dora: false"
          : absl::StrCat("dropout; leave it out, or set lora.dropout: 0, not ", lora.dropout)));
}

// The module of a tensor of the base, and what PEFT calls it.
NamedModule ModuleOf(const model::Architecture& model, const model::Parameter& parameter) {
  NamedModule module{.name = parameter.name.substr(0, parameter.name.rfind('.')),
                     .adaptable = model::IsAdaptable(parameter),
                     .layer = parameter.layer};
  module.in_files = module.name;
  if (!model::IsBase(parameter, model::Kind::kRouter)) return module;
  const model::Block& block = model.blocks[static_cast<size_t>(parameter.layer)];
  module.name = absl::StrCat(
      model.outside.layers, parameter.layer, ".",
      model::RouterModule(block, block.tensors[static_cast<size_t>(parameter.tensor)]));
  module.router = true;
  return module;
}

}  // namespace

std::vector<NamedModule> ModulesOf(const model::ModelConfig& model) {
  std::vector<NamedModule> modules;
  const auto add = [&modules](NamedModule module) {
    const auto same = std::find_if(modules.rbegin(), modules.rend(), [&](const auto& one) {
      return one.in_files == module.in_files;
    });
    // A weight and its bias are of one module and of one layer.
    if (same == modules.rend()) {
      modules.push_back(std::move(module));
    } else {
      same->adaptable |= module.adaptable;
    }
  };
  const model::Architecture architecture = model::ArchitectureOf(model);
  for (const model::Parameter& parameter : model::BaseParameterTable(architecture)) {
    add(ModuleOf(architecture, parameter));
  }
  if (model.tie_embeddings) {
    const std::string head = model::OutsideOf(model).head.name;
    const std::string name = head.substr(0, head.rfind('.'));
    add({.name = name, .adaptable = true, .in_files = name});
  }
  return modules;
}

const std::string& ExampleOf(const std::vector<NamedModule>& modules) {
  const auto linear = std::find_if(modules.begin(), modules.end(), [](const NamedModule& module) {
    return module.adaptable && module.layer >= 0;
  });
  return (linear == modules.end() ? modules.front() : *linear).name;
}

absl::StatusOr<std::set<std::string>> MeantModules(const std::vector<std::string>& targets,
                                                   const std::vector<NamedModule>& modules) {
  std::set<std::string> names;
  for (const std::string& text : targets) {
    ASSIGN_OR_RETURN(const Target target, ReadTarget(text));
    for (const NamedModule& module : modules) {
      const bool linear = text == "all-linear" && module.adaptable && module.layer >= 0;
      if (linear || target.Means(module)) names.insert(module.name);
    }
  }
  return names;
}

std::set<std::string> MeantRouters(const std::vector<std::string>& parameters,
                                   const std::vector<NamedModule>& modules) {
  std::set<std::string> names;
  for (const std::string& parameter : parameters) {
    const Target target{.text = std::string(absl::StripSuffix(parameter, kWeight)),
                        .pattern = std::nullopt};
    if (target.text == parameter) continue;
    for (const NamedModule& module : modules) {
      if (module.router && target.Means(module)) names.insert(module.name);
    }
  }
  return names;
}

absl::StatusOr<AdapterTargets> TargetsOf(const config::LoraSpec& lora,
                                         const model::ModelConfig& model) {
  const bool plain =
      std::all_of(lora.target_modules.begin(), lora.target_modules.end(), IsPlainName);
  // Nothing to look up.
  if (plain && model.mixture.experts == 0) {
    return AdapterTargets{lora.target_modules, lora.target_parameters};
  }
  const std::vector<NamedModule> modules = ModulesOf(model);
  AdapterTargets targets;
  for (const std::string& text : lora.target_modules) {
    const size_t routers = targets.parameters.size();
    ASSIGN_OR_RETURN(const std::vector<NamedModule> meant, MeantBy(text, modules));
    RETURN_IF_ERROR(AddTarget(text, meant, &targets));
    if (targets.parameters.size() == routers) continue;
    RETURN_IF_ERROR(CheckRouters(lora, "lora.target_modules", text));
  }
  for (const std::string& name : lora.target_parameters) {
    targets.parameters.push_back(name);
    if (MeantRouters({name}, modules).empty()) continue;
    RETURN_IF_ERROR(CheckRouters(lora, "lora.target_parameters", name));
  }
  return targets;
}

}  // namespace coxswain::planner
