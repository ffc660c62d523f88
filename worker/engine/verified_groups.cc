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
    const model::Role role = parameter.role;
    const bool magnitude = model::IsMagnitude(role);
    const bool last = model::BeginsAtZero(role);  // B, or A of an embedding
    const bool first = model::IsAdapter(role) && !magnitude && !last;
    VerifiedGroup& group = groups[{parameter.group, first, last, magnitude}];
    group.plan_group = parameter.group;
    group.lora_a = first;
    group.lora_b = last;
    group.name = absl::StrCat("\"", plan.groups[static_cast<size_t>(parameter.group)].name, "\"",
                              model::IsLoraA(role) ? " (LoRA A)" : "",
                              model::IsLoraB(role) ? " (LoRA B)" : "",
                              magnitude ? " (DoRA magnitudes)" : "");
    group.parameters.push_back(i);
  }
  std::vector<VerifiedGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  return sorted;
}

}  // namespace coxswain::engine
