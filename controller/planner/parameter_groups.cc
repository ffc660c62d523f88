#include "controller/planner/parameter_groups.h"

#include <cmath>
#include <utility>

#include "common/model/parameter_table.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

using model::Parameter;
using model::Role;

bool HasFlag(const Parameter& parameter, Role flag) {
  return (static_cast<uint32_t>(parameter.role) & static_cast<uint32_t>(flag)) != 0;
}

bool IsNormOrBias(const Parameter& parameter) {
  return parameter.cols == 1 && !model::IsAdapter(parameter.role);
}

void GroupFull(const config::TrainSpec& train, plan::Plan* plan) {
  plan->groups.push_back({.name = "weights", .lr_scale = 1.0, .weight_decay = train.weight_decay});
  if (!train.decay_norm_and_bias) {
    plan->groups.push_back({.name = "norms_and_biases", .lr_scale = 1.0, .weight_decay = 0.0});
  }
  for (Parameter& parameter : plan->parameters) {
    parameter.group = !train.decay_norm_and_bias && IsNormOrBias(parameter) ? 1 : 0;
  }
}

// Source: LoRA+ (Hayou et al. 2024) and its repository: B learns ratio times faster, one decay.
// Magnitudes of DoRA start at the norms of W, not at zero, and learn at the plain rate.
void GroupLora(const config::JobSpec& job, plan::Plan* plan) {
  plan->groups = {
      {.name = "lora_a", .lr_scale = 1.0, .weight_decay = job.train.weight_decay},
      {.name = "lora_b",
       .lr_scale = job.lora.loraplus_lr_ratio,
       .weight_decay = job.train.weight_decay},
  };
  if (job.lora.use_dora) {
    plan->groups.push_back(
        {.name = "lora_magnitude", .lr_scale = 1.0, .weight_decay = job.train.weight_decay});
  }
  for (Parameter& parameter : plan->parameters) {
    if (HasFlag(parameter, Role::kLoraA)) parameter.group = 0;
    if (HasFlag(parameter, Role::kLoraB)) parameter.group = 1;
    if (HasFlag(parameter, Role::kLoraMagnitude)) parameter.group = 2;
  }
}

plan::Lora MakeLora(const config::LoraSpec& lora) {
  const auto rank = static_cast<double>(lora.r);
  return {.rank = lora.r,
          .scale = lora.alpha / (lora.use_rslora ? std::sqrt(rank) : rank),
          .dropout = lora.dropout,
          .init_from = lora.init_from.value_or(""),
          .dora = lora.use_dora};
}

}  // namespace

absl::Status MakeParameters(const config::JobSpec& job, plan::Plan* plan) {
  plan->parameters = model::BaseParameterTable(plan->model);
  plan->groups.clear();
  if (job.adapter == config::Adapter::kLora) {
    ASSIGN_OR_RETURN(plan->parameters,
                     model::WithLora(std::move(plan->parameters), plan->model,
                                     {job.lora.r, job.lora.target_modules, job.lora.use_dora}));
    plan->lora = MakeLora(job.lora);
    GroupLora(job, plan);
  } else {
    GroupFull(job.train, plan);
  }
  for (const Parameter& parameter : plan->parameters) {
    if (!parameter.trainable()) continue;
    plan->groups[static_cast<size_t>(parameter.group)].expected_elements += parameter.elements();
  }
  return absl::OkStatus();
}

}  // namespace coxswain::planner
