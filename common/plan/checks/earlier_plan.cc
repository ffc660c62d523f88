#include "common/plan/checks/earlier_plan.h"

#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"

namespace coxswain::plan {
namespace {

constexpr size_t kPrefixLength = sizeof("base_model.model.") - 1;

// How the name of an adapter's tensor ends, and which part it is.
constexpr std::pair<const char*, model::Part> kEnds[] = {
    {".lora_A.weight", model::Part::kLoraA},
    {".lora_B.weight", model::Part::kLoraB},
    {".lora_magnitude_vector", model::Part::kMagnitude},
    {".lora_embedding_A", model::Part::kLoraA},
    {".lora_embedding_B", model::Part::kLoraB},
};

// The tensor of the base that a parameter is or adapts.
std::pair<std::string, model::Part> BaseOf(const std::string& name) {
  for (const auto& [end, part] : kEnds) {
    if (!absl::EndsWith(name, end)) continue;
    const size_t module = name.size() - kPrefixLength - std::strlen(end);
    return {absl::StrCat(name.substr(kPrefixLength, module), ".weight"), part};
  }
  return {name, model::Part::kBase};
}

}  // namespace

absl::Status CompleteEarlierPlan(Plan* plan) {
  if (model::FindFamily(plan->model.architecture) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: no model family \"", plan->model.architecture, "\""));
  }
  plan->architecture = model::ArchitectureOf(plan->model);
  std::unordered_map<std::string, model::Parameter> base;
  for (const model::Parameter& parameter : model::BaseParameterTable(plan->architecture)) {
    base.emplace(parameter.name, parameter);
  }
  if (plan->architecture.outside.tied) {
    model::Parameter head;
    head.kind = model::Kind::kHead;
    head.tensor = model::kHeadTensor;
    base.emplace(plan->architecture.outside.head.name, head);
  }
  for (model::Parameter& parameter : plan->parameters) {
    const auto [name, part] = BaseOf(parameter.name);
    const auto found = base.find(name);
    if (found == base.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: the model has no tensor for \"", parameter.name, "\""));
    }
    parameter.kind = found->second.kind;
    parameter.part = part;
    parameter.reach = found->second.reach;
    parameter.tensor = found->second.tensor;
    const bool packed = part == model::Part::kBase || part == model::Part::kLoraA;
    parameter.packed = packed ? found->second.packed : model::kNoTensor;
    parameter.batch = 1;
  }
  return absl::OkStatus();
}

}  // namespace coxswain::plan
