#include "worker/engine/verified_groups.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::engine {

std::vector<VerifiedGroup> MakeVerifiedGroups(const plan::Plan& plan) {
  std::map<std::tuple<int32_t, bool, bool, bool>, VerifiedGroup> groups;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable()) continue;
    const bool lora_a = model::IsLoraA(parameter.role);
    const bool magnitude = model::IsMagnitude(parameter.role);
    const bool lora_b = model::IsLoraB(parameter.role);
    VerifiedGroup& group = groups[{parameter.group, lora_a, lora_b, magnitude}];
    group.plan_group = parameter.group;
    group.lora_a = lora_a;
    group.lora_b = lora_b;
    group.name = absl::StrCat("\"", plan.groups[static_cast<size_t>(parameter.group)].name, "\"",
                              lora_a ? " (LoRA A)" : "", lora_b ? " (LoRA B)" : "",
                              magnitude ? " (DoRA magnitudes)" : "");
    group.parameters.push_back(i);
  }
  std::vector<VerifiedGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  return sorted;
}

}  // namespace coxswain::engine
