#include "controller/planner/target_modules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
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

}  // namespace

std::vector<NamedModule> ModulesOf(const model::ModelConfig& model) {
  std::vector<NamedModule> modules;
  const auto add = [&modules](const std::string& tensor, bool adaptable, int64_t layer) {
    NamedModule module{
        .name = tensor.substr(0, tensor.rfind('.')), .adaptable = adaptable, .layer = layer};
    const auto same = std::find_if(modules.rbegin(), modules.rend(),
                                   [&](const auto& one) { return one.name == module.name; });
    // A weight and its bias are of one module and of one layer.
    if (same == modules.rend()) {
      modules.push_back(std::move(module));
    } else {
      same->adaptable |= module.adaptable;
    }
  };
  for (const model::Parameter& parameter : model::BaseParameterTable(model)) {
    add(parameter.name, model::IsAdaptable(parameter), parameter.layer);
  }
  if (model.tie_embeddings) add(model::OutsideOf(model).head.name, /*adaptable=*/true, -1);
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
      if (linear || target.Means(module.name)) names.insert(module.name);
    }
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> TargetModules(const std::vector<std::string>& targets,
                                                       const model::ModelConfig& model) {
  if (std::all_of(targets.begin(), targets.end(), IsPlainName)) return targets;
  const std::vector<NamedModule> modules = ModulesOf(model);
  std::vector<std::string> names;
  for (const std::string& text : targets) {
    if (IsPlainName(text)) {
      names.push_back(text);
      continue;
    }
    ASSIGN_OR_RETURN(const Target target, ReadTarget(text));
    bool any = false;
    for (const NamedModule& module : modules) {
      if (!target.Means(module.name)) continue;
      if (!module.adaptable) {
        return absl::InvalidArgumentError(
            absl::StrCat("lora.target_modules: \"", text, "\" matches ", module.name,
                         ", which is no linear, embedding or head; narrow it"));
      }
      any = true;
      names.push_back(module.name);
    }
    if (any) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("lora.target_modules: \"", text, "\" matches no module; a name such as \"",
                     ExampleOf(modules), "\" is matched as a whole by a pattern, from a dot to ",
                     "its end by a path"));
  }
  return names;
}

}  // namespace coxswain::planner
