#include "worker/engine/parts.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::engine {

std::vector<Part> MakeParts(const plan::Plan& plan) {
  std::map<std::tuple<int32_t, bool, bool, bool>, Part> parts;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable()) continue;
    const bool lora_a = model::IsLoraA(parameter.role);
    const bool magnitude = model::IsMagnitude(parameter.role);
    const bool lora_b = model::IsLoraB(parameter.role);
    Part& part = parts[{parameter.group, lora_a, lora_b, magnitude}];
    part.group = parameter.group;
    part.lora_a = lora_a;
    part.lora_b = lora_b;
    part.name = absl::StrCat("\"", plan.groups[static_cast<size_t>(parameter.group)].name, "\"",
                             lora_a ? " (LoRA A)" : "", lora_b ? " (LoRA B)" : "",
                             magnitude ? " (DoRA magnitudes)" : "");
    part.parameters.push_back(i);
  }
  std::vector<Part> sorted;
  for (auto& [key, part] : parts) sorted.push_back(std::move(part));
  return sorted;
}

}  // namespace coxswain::engine
