#include "controller/planner/planner.h"

#include "absl/strings/str_cat.h"
#include "common/model/flops.h"
#include "common/plan/plan_checks.h"
#include "common/status_macros.h"
#include "controller/planner/advice.h"
#include "controller/planner/layout.h"
#include "controller/planner/parameter_groups.h"

namespace coxswain::planner {
namespace {

absl::Status CheckDevice(const config::JobSpec& job) {
  if (job.device == config::Device::kCuda) {
    return absl::UnimplementedError(
        "resources.device is cuda: there is no cuda worker in this build; use device: cpu");
  }
  if (job.compute_dtype != "float32") {
    return absl::InvalidArgumentError(
        absl::StrCat("precision.compute is ", job.compute_dtype,
                     ", cpu workers compute in float32; set precision.compute: auto"));
  }
  return absl::OkStatus();
}

void SetScalars(const std::string& job_id, const config::JobSpec& job, const Recipe& recipe,
                plan::Plan* plan) {
  plan->job = job_id;
  plan->recipe_hash = recipe.hash();
  plan->model_path = job.model_path;
  plan->init = job.init;
  plan->init_seed = job.init_seed;
  plan->seed = job.train.seed;
  plan->replicate = static_cast<int32_t>(job.workers);
  plan->shard = 1;
  plan->sequence_len = job.sequence_len;
  plan->max_documents_per_bin = job.packing.strategy == config::PackingStrategy::kNone
                                    ? 1
                                    : job.packing.max_documents_per_bin;
  plan->beta1 = job.train.beta1;
  plan->beta2 = job.train.beta2;
  plan->eps = job.train.eps;
  plan->max_grad_norm = job.train.max_grad_norm;
  plan->label_smoothing = job.train.label_smoothing;
  plan->z_loss = job.train.z_loss;
  plan->compute_dtype = job.compute_dtype;
}

// At step 0, every eval_steps and at the end.
int64_t Evaluations(const config::JobSpec& job, const Recipe& recipe) {
  if (recipe.eval_tokens() == 0) return 0;
  const int64_t steps = recipe.total_steps();
  if (job.eval_steps == 0) return 2;
  return 1 + steps / job.eval_steps + (steps % job.eval_steps != 0 ? 1 : 0);
}

Estimate MakeEstimate(const config::JobSpec& job, const plan::Plan& plan, const Recipe& recipe,
                      const WorkerResources& resources) {
  Estimate estimate;
  for (const plan::Parameter& parameter : plan.parameters) {
    estimate.total_parameters += parameter.elements();
    if (parameter.trainable()) estimate.trainable_parameters += parameter.elements();
  }
  const MemoryByClass memory = SumByClass(plan.buffers);
  estimate.weights = memory.weights;
  estimate.gradients = memory.gradients;
  estimate.optimizer = memory.optimizer;
  estimate.activations = memory.activations;
  estimate.workspace = memory.workspace;
  estimate.total_bytes = memory.total();

  // Documents of a bin do not see each other, so attention spans a document, not the bin.
  const int64_t span = recipe.attention_span();
  estimate.flops_per_token = model::TrainingFlops(plan.model, plan.parameters, span).total();
  const double forward = model::ForwardFlopsPerToken(plan.model, plan.parameters, span);
  const double executed = estimate.flops_per_token + (plan.recompute == "block" ? forward : 0);
  estimate.threads = resources.threads;
  const double rate =
      static_cast<double>(plan.world_size() * resources.threads) * kFlopsPerSecondPerThread;
  estimate.tokens_per_second = rate / executed;
  const double evaluated =
      static_cast<double>(Evaluations(job, recipe)) * static_cast<double>(recipe.eval_tokens());
  estimate.seconds = static_cast<double>(recipe.train_tokens()) / estimate.tokens_per_second +
                     evaluated * forward / rate;
  return estimate;
}

}  // namespace

absl::StatusOr<PlannedJob> MakePlan(const std::string& job_id, const config::JobSpec& job,
                                    const model::ModelConfig& model, const Recipe& recipe,
                                    const WorkerResources& resources) {
  RETURN_IF_ERROR(CheckDevice(job));
  PlannedJob planned;
  plan::Plan& plan = planned.plan;
  plan.model = model;
  SetScalars(job_id, job, recipe, &plan);
  RETURN_IF_ERROR(MakeParameters(job, &plan));
  BalanceSaveRanks(plan.world_size(), &plan.parameters);
  RETURN_IF_ERROR(ChooseLayout(
      job,
      {.global_batch_bins = recipe.global_batch_bins(), .memory_bytes = resources.memory_bytes},
      &plan));
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  planned.bytes = plan::SerializePlan(plan);
  planned.hash = plan::PlanHash(planned.bytes);
  planned.estimate = MakeEstimate(job, plan, recipe, resources);
  planned.advice = Advise(job, plan, recipe);
  return planned;
}

}  // namespace coxswain::planner
