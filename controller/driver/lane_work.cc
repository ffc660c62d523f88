#include "controller/driver/lane_work.h"

#include <utility>

#include "common/model/flops.h"
#include "common/model/read_model_config.h"
#include "common/plan/plan.h"
#include "common/plan/plan_bytes.h"
#include "common/status_macros.h"
#include "controller/driver/recipe_curriculum.h"
#include "controller/export/export_artifacts.h"
#include "controller/planner/added_tokens.h"
#include "controller/planner/base_weights.h"
#include "controller/planner/planner.h"

namespace coxswain::driver {
namespace {

absl::StatusOr<std::shared_ptr<const Curriculum>> PrepareJob(const std::string& cache_dir,
                                                             const config::JobSpec& spec,
                                                             const PrepareHooks& hooks) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(model::ModelConfig model, model::ReadModelConfig(spec.model_path, &warnings));
  RETURN_IF_ERROR(planner::CheckBaseWeights(spec, model));
  data::PrepareOptions options;
  options.cache_dir = cache_dir;
  options.progress = hooks.progress;
  options.cancelled = hooks.cancelled;
  ASSIGN_OR_RETURN(data::PreparedData data, data::PrepareData(spec, options));
  data.warnings.insert(data.warnings.begin(), warnings.begin(), warnings.end());
  RETURN_IF_ERROR(planner::GrowVocabulary(data, &model));
  ASSIGN_OR_RETURN(planner::Recipe recipe,
                   planner::Recipe::Make(spec, model, data, hooks.cancelled));
  return std::make_shared<RecipeCurriculum>(std::move(model), std::move(data), std::move(recipe));
}

planner::WorkerResources Resources(const WorkerFacts& workers) {
  planner::WorkerResources resources;
  resources.memory_bytes = workers.memory_bytes;
  resources.compute_capability = workers.compute_capability;
  resources.links = workers.links;
  resources.ranks_of_hosts = workers.ranks_of_hosts;
  if (workers.threads > 0) resources.threads = workers.threads;
  return resources;
}

// On a GPU every bin takes sequence_len slots and every micro-step all of its bins.
BinWork WorkOf(const plan::Plan& plan) {
  const double linear = model::TrainingFlops(plan.model, plan.parameters, 0).total();
  if (plan.device != "cuda") return {.per_token = linear};
  return {.per_token = 0,
          .per_bin = linear * static_cast<double>(plan.sequence_len),
          .micro_step_bins = plan.micro_batch_bins};
}

absl::StatusOr<GangPlan> PlanGang(const PlanInput& input) {
  const auto& curriculum = static_cast<const RecipeCurriculum&>(*input.curriculum);
  ASSIGN_OR_RETURN(planner::PlannedJob planned,
                   planner::MakePlan(input.job, *input.spec, curriculum.model(),
                                     curriculum.recipe(), Resources(input.workers)));
  GangPlan plan;
  plan.bytes = std::move(planned.bytes);
  plan.hash = std::move(planned.hash);
  plan.advice = std::move(planned.advice);
  const planner::Estimate& estimate = planned.estimate;
  plan.flops_per_token = estimate.flops_per_token;
  plan.micro_batch_bins = planned.plan.micro_batch_bins;
  plan.work = WorkOf(planned.plan);
  plan.predicted = planned.plan.predicted;
  plan.links_measured = planned.plan.links_measured;
  plan.memory.set_weights(estimate.weights);
  plan.memory.set_gradients(estimate.gradients);
  plan.memory.set_optimizer(estimate.optimizer);
  plan.memory.set_activations(estimate.activations);
  plan.memory.set_workspace(estimate.workspace);
  plan.memory.set_peak(estimate.total_bytes);
  plan.memory.set_host(estimate.host);
  return plan;
}

absl::StatusOr<ExportedTo> ExportJob(Files* files, const ExportInput& input) {
  ASSIGN_OR_RETURN(plan::Plan plan, plan::ParsePlan(input.plan_bytes));
  ASSIGN_OR_RETURN(const exports::ExportResult result,
                   exports::ExportArtifacts(files, {.job = input.spec,
                                                    .plan = std::move(plan),
                                                    .checkpoint_dir = input.checkpoint_dir,
                                                    .owner = input.owner,
                                                    .guard = input.guard}));
  return ExportedTo{result.directory, result.merged_directory};
}

}  // namespace

LaneWork MakeLaneWork(const std::string& cache_dir, Files* files) {
  LaneWork work;
  work.prepare = [cache_dir](const config::JobSpec& spec, const PrepareHooks& hooks) {
    return PrepareJob(cache_dir, spec, hooks);
  };
  work.plan = PlanGang;
  work.export_artifacts = [files](const ExportInput& input) { return ExportJob(files, input); };
  return work;
}

absl::StatusOr<PlanPage> MakePlanPage(const std::string& cache_dir, const config::JobSpec& spec,
                                      const WorkerFacts& workers,
                                      const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<const Curriculum> prepared,
      PrepareJob(cache_dir, spec, PrepareHooks{.progress = {}, .cancelled = cancelled}));
  const auto& curriculum = static_cast<const RecipeCurriculum&>(*prepared);
  ASSIGN_OR_RETURN(const planner::PlannedJob planned,
                   planner::MakePlan(spec.name, spec, curriculum.model(), curriculum.recipe(),
                                     Resources(workers)));
  return PlanPage{planner::FormatPlan(spec, curriculum.recipe(), planned, curriculum.data()),
                  planner::PlanJson(spec, curriculum.recipe(), planned, curriculum.data())};
}

}  // namespace coxswain::driver
