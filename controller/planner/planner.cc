#include "controller/planner/planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/flops.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/checks/plan_checks.h"
#include "common/plan/extents.h"
#include "common/plan/fusions/fused_ops.h"
#include "common/plan/snapshot_map.h"
#include "common/status_macros.h"
#include "controller/planner/advice.h"
#include "controller/planner/device_check.h"
#include "controller/planner/layout/mesh.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/memory/snapshot_memory.h"
#include "controller/planner/model/fp8_linears.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/model/preference_loss.h"
#include "controller/planner/plan_scalars.h"
#include "controller/planner/time/block_products.h"
#include "controller/planner/time/comm_time.h"
#include "controller/planner/time/gpu_time.h"

namespace coxswain::planner {
namespace {

// At step 0, every eval_steps and at the end.
int64_t Evaluations(const config::JobSpec& job, const Recipe& recipe) {
  if (recipe.eval_tokens() == 0) return 0;
  const int64_t steps = recipe.total_steps();
  if (job.eval_steps == 0) return 2;
  return 1 + steps / job.eval_steps + (steps % job.eval_steps != 0 ? 1 : 0);
}

// Operations of a token, with what backward computes again. `needed`: without; forward: of these.
double ExecutedFlops(const plan::Plan& plan, double needed, double forward) {
  if (plan.lm_head_panel_bytes > 0 && !plan.weighs_rows()) {
    needed += 2 * static_cast<double>(plan.model.vocab_size * plan.model.hidden_size);
  }
  if (plan.recompute == RecomputeLevel::kBlock) return needed + forward;
  return needed + 2 * BlockProductsOf(plan).again();
}

// Work of the rank with the most bins of a whole global batch; none where the rates of its GPU are
// not known.
ComputeSeconds ComputeOfRank(const plan::Plan& plan, const Recipe& recipe,
                             const WorkerResources& resources, double flops_per_token) {
  const int64_t world = plan.world_size(), size = plan.micro_batch_bins;
  const int64_t bins = CeilDiv(recipe.global_batch_bins(), world);
  ComputeSeconds compute;
  compute.micro_steps = CeilDiv(bins, size);
  const auto tokens = static_cast<double>(std::min(size, bins) * plan.sequence_len);
  if (plan.device == DeviceKind::kCuda && !resources.gpu.rates) {
    compute.dequantized_bytes_per_second = std::numeric_limits<double>::infinity();
    return compute;
  }
  if (plan.device == DeviceKind::kCuda) {
    const GpuTime time = PredictGpuTime(plan, recipe.attention_span(), *resources.gpu.rates);
    compute.forward = tokens * time.forward_token + time.forward_micro_step;
    compute.backward =
        tokens * (time.token - time.forward_token) + time.micro_step - time.forward_micro_step;
    compute.update = time.step / plan.shard;
    compute.dequantized_bytes_per_second =
        kDequantizedShare * resources.gpu.rates->copy_bytes_per_second;
    return compute;
  }
  const double rate = static_cast<double>(resources.threads) * kFlopsPerSecondPerThread;
  const double forward =
      model::ForwardFlopsPerToken(plan.model, plan.parameters, recipe.attention_span());
  const double filled = tokens * recipe.packing_efficiency();  // the CPU computes no padding
  compute.forward = filled * forward / rate;
  compute.dequantized_bytes_per_second = kCpuDequantizedBytesPerSecond;
  compute.backward = filled * (ExecutedFlops(plan, flops_per_token, forward) - forward) / rate;
  return compute;
}

// Of a GPU whose rates are not known the collectives alone.
plan::Prediction Predict(const plan::Plan& plan, const Recipe& recipe,
                         const WorkerResources& resources, double flops_per_token) {
  const plan::Prediction step =
      PredictStep(plan, ComputeOfRank(plan, recipe, resources, flops_per_token));
  if (plan.device == DeviceKind::kCuda && !resources.gpu.rates)
    return {.comm_seconds = step.comm_seconds};
  return step;
}

// A bin occupies all its slots, filled or not. Ranks that wait for each other wait in every step.
void PredictCuda(const config::JobSpec& job, const plan::Plan& plan, const Recipe& recipe,
                 const Gpu& gpu, Estimate* estimate) {
  if (!gpu.rates) return;
  const GpuTime time = PredictGpuTime(plan, recipe.attention_span(), *gpu.rates);
  const auto tokens = static_cast<double>(recipe.train_tokens());
  const auto ranks = static_cast<double>(plan.world_size());
  const int64_t rank_bins = plan.world_size() * plan.micro_batch_bins;  // of a micro-step
  const auto micro_steps = [rank_bins](size_t bins) {
    return static_cast<double>(CeilDiv(static_cast<int64_t>(bins), rank_bins));
  };
  const double step =
      micro_steps(static_cast<size_t>(recipe.global_batch_bins())) * time.micro_step +
      time.step / plan.shard;
  const double training =
      tokens / recipe.packing_efficiency() * time.token / ranks +
      static_cast<double>(recipe.total_steps()) * (step + plan.predicted.exposed_seconds);
  const double evaluation = static_cast<double>(recipe.eval_bins().size()) *
                                static_cast<double>(plan.sequence_len) * time.forward_token /
                                ranks +
                            micro_steps(recipe.eval_bins().size()) * time.forward_micro_step;
  estimate->tokens_per_second = tokens / training;
  estimate->seconds = training + static_cast<double>(Evaluations(job, recipe)) * evaluation;
  estimate->mfu = model::ModelFlopsUtilisation(
      estimate->flops_per_token, estimate->tokens_per_second / ranks, gpu.peak_flops_per_second);
}

void PredictCpu(const config::JobSpec& job, const plan::Plan& plan, const Recipe& recipe,
                Estimate* estimate) {
  const double forward =
      model::ForwardFlopsPerToken(plan.model, plan.parameters, recipe.attention_span());
  const double executed = ExecutedFlops(plan, estimate->flops_per_token, forward);
  const double rate =
      static_cast<double>(plan.world_size() * estimate->threads) * kFlopsPerSecondPerThread;
  const double waits = static_cast<double>(recipe.total_steps()) * plan.predicted.exposed_seconds;
  const auto tokens = static_cast<double>(recipe.train_tokens());
  estimate->tokens_per_second = tokens / (tokens * executed / rate + waits);
  const double evaluated =
      static_cast<double>(Evaluations(job, recipe)) * static_cast<double>(recipe.eval_tokens());
  estimate->seconds = static_cast<double>(recipe.train_tokens()) / estimate->tokens_per_second +
                      evaluated * forward / rate;
}

Estimate MakeEstimate(const config::JobSpec& job, const plan::Plan& plan, const Recipe& recipe,
                      const WorkerResources& resources) {
  Estimate estimate;
  for (const model::Parameter& parameter : plan.parameters) {
    estimate.total_parameters += parameter.elements();
    if (parameter.trainable()) estimate.trainable_parameters += parameter.elements();
  }
  estimate.active_parameters = model::ActiveParameters(plan.model, plan.parameters);
  const MemoryByClass memory = PlannedMemory(plan);
  estimate.weights = memory.weights;
  estimate.gradients = memory.gradients;
  estimate.optimizer = memory.optimizer;
  estimate.activations = memory.activations;
  estimate.workspace = memory.workspace;
  estimate.runtime = memory.runtime;
  estimate.communication = memory.communication;
  estimate.total_bytes = memory.total();
  estimate.host = memory.host;
  estimate.snapshot_in_slices = plan.snapshot_in_slices;
  estimate.checkpoint = static_cast<uint64_t>(plan::CheckpointBytes(plan));

  // Documents of a bin do not see each other, so attention spans a document, not the bin.
  const int64_t span = recipe.attention_span();
  estimate.flops_per_token = model::TrainingFlops(plan.model, plan.parameters, span).total();
  estimate.threads = resources.threads;
  if (plan.device == DeviceKind::kCuda) {
    PredictCuda(job, plan, recipe, resources.gpu, &estimate);
  } else {
    PredictCpu(job, plan, recipe, &estimate);
  }
  return estimate;
}

}  // namespace

absl::StatusOr<PlannedJob> MakePlan(const std::string& job_id, const config::JobSpec& job,
                                    const model::ModelConfig& model, const Recipe& recipe,
                                    const WorkerResources& resources,
                                    const plan::Generation& generation) {
  RETURN_IF_ERROR(CheckPreferenceLoss(job));
  RETURN_IF_ERROR(CheckDevice(job, model, resources.compute_capability));
  PlannedJob planned;
  planned.compute_capability = resources.compute_capability;
  planned.gpu = resources.gpu;
  plan::Plan& plan = planned.plan;
  plan.model = model;
  SetScalars(job_id, job, recipe.hash(), &plan);
  plan.generation = generation;
  RETURN_IF_ERROR(MakeParameters(job, &plan));
  RETURN_IF_ERROR(ChooseFp8(job, resources.compute_capability, &plan));
  plan.fusions = plan::ApplicableFusions(plan);
  const LayoutLimits limits{.global_batch_bins = recipe.global_batch_bins(),
                            .memory_bytes = resources.memory_bytes,
                            .single_document_bins = recipe.single_document_bins(),
                            .compute_capability = resources.compute_capability};
  ASSIGN_OR_RETURN(std::string why, ChooseMesh(job, limits, resources.ranks_of_hosts, &plan));
  plan.links_measured = plan.world_size() > 1 && !resources.links.empty();
  plan.links = plan.links_measured ? resources.links : DefaultLinks(plan);
  const double flops =
      model::TrainingFlops(plan.model, plan.parameters, recipe.attention_span()).total();
  ASSIGN_OR_RETURN(std::string slices,
                   PlaceSnapshots(resources.host_bytes, resources.ranks_of_hosts, &plan));
  plan.predicted = Predict(plan, recipe, resources, flops);
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  planned.bytes = plan::SerializePlan(plan);
  planned.hash = plan::PlanHash(planned.bytes);
  planned.estimate = MakeEstimate(job, plan, recipe, resources);
  planned.advice = Advise(job, plan, recipe, resources.compute_capability);
  for (std::string* line : {&why, &slices}) {
    if (!line->empty()) planned.advice.push_back(std::move(*line));
  }
  return planned;
}

}  // namespace coxswain::planner
