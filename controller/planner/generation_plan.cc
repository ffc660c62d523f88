#include "controller/planner/generation_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "common/model/flops.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/checks/plan_checks.h"
#include "common/plan/fusions/fused_ops.h"
#include "common/status_macros.h"
#include "controller/planner/device_check.h"
#include "controller/planner/layout/fit_experts.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/plan_scalars.h"

namespace coxswain::planner {
namespace {

// The adapter is loaded as it is.
absl::Status FreezeParameters(const config::JobSpec& job, plan::Plan* plan) {
  RETURN_IF_ERROR(MakeParameters(job, plan));
  plan->groups.clear();
  for (model::Parameter& parameter : plan->parameters) parameter.group = model::kFrozen;
  return absl::OkStatus();
}

void SetExtents(const plan::Generation& generation, plan::Plan* plan) {
  plan->generation = generation;
  plan->sequence_len = generation.length;
  plan->micro_batch_bins = 1;
  plan->max_documents_per_bin = 1;
  plan->lm_head_chunk_tokens = generation.sequences;
  plan->recompute = RecomputeLevel::kBlock;  // every block in the memory of the first
  plan->recompute_every = 1;
}

Estimate EstimateOf(const plan::Plan& plan, const MemoryByClass& memory) {
  Estimate estimate;
  for (const model::Parameter& parameter : plan.parameters) {
    estimate.total_parameters += parameter.elements();
  }
  estimate.weights = memory.weights;
  estimate.activations = memory.activations;
  estimate.workspace = memory.workspace;
  estimate.runtime = memory.runtime;
  estimate.total_bytes = memory.total();
  estimate.flops_per_token = GenerationFlopsPerToken(plan);
  return estimate;
}

absl::Status CheckMemory(const plan::Plan& plan, const MemoryByClass& need, uint64_t limit) {
  if (limit == 0 || need.total() <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a worker needs ", FormatBytes(need.total()), " (weights ", FormatBytes(need.weights),
      ", activations with the cache of ", plan.generation.sequences, " x ", plan.generation.length,
      " tokens ", FormatBytes(need.activations), ", workspace ", FormatBytes(need.workspace),
      need.runtime > 0 ? absl::StrCat(", CUDA's runtime ", FormatBytes(need.runtime)) : "",
      "), its limit is ", FormatBytes(limit),
      ": ask for fewer prompts or tokens, or use a worker with more memory"));
}

}  // namespace

absl::StatusOr<plan::Generation> GenerationOf(const config::JobSpec& job,
                                              const PromptExtents& prompts) {
  if (prompts.texts == 0) return plan::Generation{};
  if (prompts.longest >= job.sequence_len) {
    return absl::InvalidArgumentError(
        absl::StrCat("a prompt has ", prompts.longest, " tokens and sequence_len is ",
                     job.sequence_len, ": no room for an answer; give a longer sequence_len"));
  }
  return plan::Generation{
      .sequences = prompts.texts,
      .length = std::min(job.sequence_len, prompts.longest + job.generate.max_new_tokens)};
}

double GenerationFlopsPerToken(const plan::Plan& plan) {
  return model::ForwardFlopsPerToken(plan.model, plan.parameters, plan.generation.length);
}

absl::StatusOr<PlannedJob> MakeGenerationPlan(const std::string& job_id, const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const PromptExtents& prompts,
                                              const WorkerResources& resources) {
  RETURN_IF_ERROR(CheckDevice(job, model, resources.compute_capability));
  if (job.workers > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("method: generate runs on one worker; resources.workers is ", job.workers));
  }
  ASSIGN_OR_RETURN(const plan::Generation generation, GenerationOf(job, prompts));
  PlannedJob planned;
  plan::Plan& plan = planned.plan;
  plan.model = model;
  SetScalars(job_id, job, Sha256(absl::StrCat("generate ", job.model_path)), &plan);
  SetExtents(generation, &plan);
  RETURN_IF_ERROR(FreezeParameters(job, &plan));
  plan.fusions = plan::ApplicableFusions(plan);
  plan.buffers = BufferTable(plan);
  FitExperts(resources.memory_bytes, &plan);
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  const MemoryByClass memory = PlannedMemory(plan);
  RETURN_IF_ERROR(CheckMemory(plan, memory, resources.memory_bytes));
  planned.bytes = plan::SerializePlan(plan);
  planned.hash = plan::PlanHash(planned.bytes);
  planned.estimate = EstimateOf(plan, memory);
  return planned;
}

}  // namespace coxswain::planner
