#include "controller/planner/model/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/family.h"
#include "common/model/files/fp8_weights.h"
#include "common/model/files/stacked_files.h"
#include "common/model/parameter_table.h"
#include "common/model/saved_modules.h"
#include "common/status_macros.h"
#include "controller/planner/adapters/adapted_stacks.h"
#include "controller/planner/adapters/target_modules.h"
#include "controller/planner/model/gguf_check.h"
#include "controller/planner/model/quantization.h"

namespace coxswain::planner {
namespace {

using model::Parameter;

bool IsNormOrBias(const Parameter& parameter) {
  return parameter.cols == 1 && !model::IsAdapter(parameter);
}

// Routers and their biases; what corrects their choice is no parameter of a gradient.
void FreezeRouters(plan::Plan* plan) {
  for (Parameter& parameter : plan->parameters) {
    if (model::IsRouter(parameter)) parameter.group = model::kFrozen;
  }
}

void GroupFull(const config::TrainSpec& train, plan::Plan* plan) {
  plan->groups.push_back({.name = "weights", .lr_scale = 1.0, .weight_decay = train.weight_decay});
  if (!train.decay_norm_and_bias) {
    plan->groups.push_back({.name = "norms_and_biases", .lr_scale = 1.0, .weight_decay = 0.0});
  }
  for (Parameter& parameter : plan->parameters) {
    if (model::IsBuffer(parameter)) continue;
    parameter.group = !train.decay_norm_and_bias && IsNormOrBias(parameter) ? 1 : 0;
  }
}

// At one absolute rate under LoRA+. Source: peft 0.21 optimizers/loraplus.py.
void GroupEmbeddingAdapter(const config::JobSpec& job, plan::Plan* plan) {
  if (job.lora.loraplus_lr_ratio == 1) return;
  const auto group = static_cast<int32_t>(plan->groups.size());
  for (Parameter& parameter : plan->parameters) {
    if (model::AdaptsEmbedding(parameter)) parameter.group = group;
  }
  plan->groups.push_back({.name = "lora_embedding",
                          .lr_scale = job.lora.loraplus_lr_embedding / job.train.learning_rate,
                          .weight_decay = job.train.weight_decay});
}

void DropEmptyGroups(plan::Plan* plan) {
  for (auto group = static_cast<int32_t>(plan->groups.size()); group-- > 0;) {
    const bool used = std::any_of(plan->parameters.begin(), plan->parameters.end(),
                                  [group](const auto& p) { return p.group == group; });
    if (used) continue;
    plan->groups.erase(plan->groups.begin() + group);
    for (Parameter& parameter : plan->parameters) parameter.group -= parameter.group > group;
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
    if (model::IsLoraA(parameter)) parameter.group = 0;
    if (model::IsLoraB(parameter)) parameter.group = 1;
    if (model::IsMagnitude(parameter)) parameter.group = 2;
  }
  GroupEmbeddingAdapter(job, plan);
  DropEmptyGroups(plan);
}

// Beside the adapter, at its plain rate; groups that nothing is in are left out.
void GroupSaved(const config::TrainSpec& train, const std::vector<bool>& saved, plan::Plan* plan) {
  const auto group = [&](const char* name, double decay, bool of_vectors) {
    const auto index = static_cast<int32_t>(plan->groups.size());
    bool any = false;
    for (size_t i = 0; i < saved.size(); ++i) {
      Parameter& parameter = plan->parameters[i];
      const bool vector = !train.decay_norm_and_bias && IsNormOrBias(parameter);
      if (!saved[i] || vector != of_vectors) continue;
      parameter.group = index;
      any = true;
    }
    if (any) plan->groups.push_back({.name = name, .lr_scale = 1.0, .weight_decay = decay});
  };
  group("saved_modules", train.weight_decay, false);
  group("saved_norms_and_biases", 0.0, true);
}

// With moe.router: trained, the routers too are trained in full beside the adapter.
std::vector<bool> WithRouters(const config::JobSpec& job, const plan::Plan& plan,
                              std::vector<bool> saved) {
  if (!job.moe.trains_router.value_or(false)) return saved;
  for (size_t i = 0; i < saved.size(); ++i) {
    if (model::IsRouter(plan.parameters[i])) saved[i] = true;
  }
  return saved;
}

// A router is adapted or trained in full: both would train the same weight.
absl::Status CheckRoutersInFull(const plan::Plan& plan, const std::vector<bool>& in_full) {
  for (const Parameter& adapter : plan.parameters) {
    if (!model::IsLoraA(adapter) || adapter.kind != model::Kind::kRouter) continue;
    for (size_t i = 0; i < in_full.size(); ++i) {
      if (!in_full[i] || !model::IsAdapterOf(adapter, plan.parameters[i])) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "lora adapts \"", plan.parameters[i].name,
          "\", which moe.router: trained or lora.modules_to_save trains in full; take the router "
          "out "
          "of lora.target_modules and lora.target_parameters, or set moe.router: frozen"));
    }
  }
  return absl::OkStatus();
}

// Rows of tokens that no checkpoint has must be trained, and be in what is exported.
absl::Status CheckAddedTokens(const plan::Plan& plan) {
  if (plan.model.added_tokens.count == 0) return absl::OkStatus();
  std::vector<std::string> wanted, frozen;
  for (const Parameter& parameter : plan.parameters) {
    if (!model::IsEmbedding(parameter) && !model::IsHead(parameter)) continue;
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    wanted.push_back(module.substr(module.rfind('.') + 1));
    if (!parameter.trainable()) frozen.push_back(wanted.back());
  }
  if (frozen.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("base_model.added_tokens with adapter: lora needs the new rows trained, and ",
                   absl::StrJoin(frozen, " and "), " would be frozen; add lora.modules_to_save: [",
                   absl::StrJoin(wanted, ", "), "]"));
}

// A merged head or embedding would no longer be the other, and the file has one of both.
absl::Status CheckMerge(const config::JobSpec& job, const plan::Plan& plan) {
  const bool gguf = job.export_gguf.model != "none";
  if ((!job.export_merge && !gguf) || !plan.model.tie_embeddings) return absl::OkStatus();
  for (const Parameter& parameter : plan.parameters) {
    if (parameter.layer >= 0 || !model::IsAdapter(parameter)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(job.export_merge ? "export.merge: \"" : "export.gguf.model: \"",
                     parameter.name, "\" adapts one of two modules that share their weight; set ",
                     job.export_merge ? "export.merge: false" : "export.gguf.model: none",
                     ", or leave the module out of lora.target_modules"));
  }
  return absl::OkStatus();
}

// Beside an adapter that is exported alone no model is written.
absl::Status CheckFp8Export(const config::JobSpec& job, const plan::Plan& plan) {
  if (job.export_dtype != "fp8" || job.method == "generate") return absl::OkStatus();
  if (job.adapter != config::Adapter::kNone && !job.export_merge) return absl::OkStatus();
  const absl::Status status = model::CheckFp8Weights(plan.parameters);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      "export.dtype is fp8, ", std::string(status.message()), "; set export.dtype: bfloat16"));
}

// A bias that moves belongs to the base, which an adapter leaves as it is.
absl::Status CheckBalance(const config::JobSpec& job, const plan::Plan& plan) {
  if (!job.moe.bias_rate || job.method == "generate") return absl::OkStatus();
  const bool moves = std::any_of(plan.parameters.begin(), plan.parameters.end(), model::IsBuffer);
  if (!moves) {
    return absl::InvalidArgumentError(absl::StrCat(
        "moe.balance: bias moves e_score_correction_bias, by which routers choose, and ",
        plan.model.architecture, " has none; set moe.balance: none",
        plan.model.mixture.experts > 0 ? ", and moe.aux_loss.coef to balance by a loss" : ""));
  }
  if (job.adapter == config::Adapter::kNone || job.export_merge) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "moe.balance: bias moves e_score_correction_bias of the base, which an exported adapter does "
      "not hold; set export.merge: true to export the whole model, or moe.balance: none");
}

// The rank is of stacks that are adapted, and files of single experts have one for all.
absl::Status CheckGateUpRank(const config::JobSpec& job, const plan::Plan& plan) {
  if (!job.lora.gate_up_r.has_value()) return absl::OkStatus();
  if (NamesOfGateUpStacks(job.lora.target_parameters, plan.model).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora.gate_up_r is ", *job.lora.gate_up_r,
                     ", and no stack of gate and up is adapted; leave it out, or name "
                     "mlp.experts.gate_up_proj in "
                     "lora.target_parameters"));
  }
  if (!job.export_by_expert || *job.lora.gate_up_r == job.lora.r) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "export.adapter_layout: per_expert has one rank, and lora.gate_up_r is ", *job.lora.gate_up_r,
      " beside lora.r ", job.lora.r, "; set stacked, or leave lora.gate_up_r out"));
}

// Single experts have names in the files that hold them so.
absl::Status CheckAdapterLayout(const config::JobSpec& job, const plan::Plan& plan) {
  if (!job.export_by_expert) return absl::OkStatus();
  for (const Parameter& parameter : plan.parameters) {
    if (parameter.kind != model::Kind::kExperts || !model::IsLoraA(parameter)) continue;
    for (const model::StackedFile& file : model::FilesOfAdapted(plan.architecture, parameter)) {
      if (file.one_each()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "export.adapter_layout: per_expert, and the files of ", plan.model.architecture,
          " have \"", file.name, "\" as one stack; set stacked"));
    }
  }
  return absl::OkStatus();
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
  ASSIGN_OR_RETURN(plan->quantization, QuantizationOf(job, plan->model));
  plan->architecture = model::ArchitectureOf(plan->model);
  plan->parameters = model::BaseParameterTable(plan->architecture);
  plan->groups.clear();
  if (job.adapter == config::Adapter::kLora) {
    RETURN_IF_ERROR(CheckTargetsOfExperts(job.lora, plan->model));
    ASSIGN_OR_RETURN(AdapterTargets targets, TargetsOf(job.lora, plan->model));
    ASSIGN_OR_RETURN(
        plan->parameters,
        model::WithLora(std::move(plan->parameters), plan->architecture,
                        {job.lora.r, std::move(targets.modules), job.lora.use_dora,
                         std::move(targets.parameters), job.lora.gate_up_r.value_or(job.lora.r)}));
    RETURN_IF_ERROR(CheckGateUpRank(job, *plan));
    plan->lora = MakeLora(job.lora);
    GroupLora(job, plan);
    ASSIGN_OR_RETURN(const std::vector<bool> saved,
                     model::SavedModules(plan->parameters, plan->model, job.lora.modules_to_save));
    const std::vector<bool> in_full = WithRouters(job, *plan, saved);
    RETURN_IF_ERROR(CheckRoutersInFull(*plan, in_full));
    GroupSaved(job.train, in_full, plan);
    RETURN_IF_ERROR(CheckAddedTokens(*plan));
    RETURN_IF_ERROR(CheckMerge(job, *plan));
    RETURN_IF_ERROR(CheckAdapterLayout(job, *plan));
    RETURN_IF_ERROR(CheckGgufAdapter(job, *plan));
  } else {
    GroupFull(job.train, plan);
    if (!job.moe.trains_router.value_or(true)) FreezeRouters(plan);
  }
  RETURN_IF_ERROR(CheckBalance(job, *plan));
  RETURN_IF_ERROR(CheckFp8Export(job, *plan));
  for (const Parameter& parameter : plan->parameters) {
    if (!parameter.trainable()) continue;
    plan->groups[static_cast<size_t>(parameter.group)].expected_elements += parameter.elements();
  }
  return absl::OkStatus();
}

}  // namespace coxswain::planner
