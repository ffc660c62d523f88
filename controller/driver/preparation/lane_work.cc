#include "controller/driver/preparation/lane_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/hub/upload/push.h"
#include "common/model/flops.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/plan.h"
#include "common/plan/snapshot_map.h"
#include "common/status_macros.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/data/documents/prompts.h"
#include "controller/data/documents/trained_chat.h"
#include "controller/data/prepare/kept_references.h"
#include "controller/driver/training/prompt_curriculum.h"
#include "controller/driver/training/recipe_curriculum.h"
#include "controller/driver/training/recipe_name.h"
#include "controller/export/export_artifacts.h"
#include "controller/export/pushed_folder.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/planner/generation_plan.h"
#include "controller/planner/job_recipe.h"
#include "controller/planner/model/added_tokens.h"
#include "controller/planner/model/base_weights.h"
#include "controller/planner/model/preference_loss.h"
#include "controller/planner/planner.h"
#include "controller/planner/recipe/extension.h"

namespace coxswain::driver {
namespace {

planner::PromptExtents ExtentsOf(const Questions& questions) {
  planner::PromptExtents extents;
  for (const std::vector<int32_t>& ids : questions.ids) {
    ++extents.texts;
    extents.longest = std::max(extents.longest, static_cast<int64_t>(ids.size()));
  }
  return extents;
}

// Beside the train store, one of each recipe and number of steps in its first pass: those steps and
// the evaluation read every document that any later step reads.
std::string ReferencesPath(const data::TokenStore& train, const std::string& recipe_stem,
                           int64_t steps) {
  return absl::StrCat(train.path(), ".references-", ToHex(recipe_stem).substr(0, 16), "-", steps);
}

// What was kept of this recipe, by a job of as many steps in the first pass or of all of them;
// null: nothing was, or the job keeps nothing.
absl::StatusOr<std::shared_ptr<const ReferenceSums>> KeptBefore(const plan::DocumentLoss& loss,
                                                                const data::PreparedData& data,
                                                                const planner::Recipe& recipe) {
  if (!loss.any() || loss.reference != "kept") return nullptr;
  for (const int64_t steps : {recipe.first_step_of_pass(1), recipe.whole_pass_steps()}) {
    absl::StatusOr<data::KeptReferences> kept = data::ReadReferences(
        ReferencesPath(*data.train, recipe.stem(), steps), data.train->num_documents(),
        data.eval == nullptr ? 0 : data.eval->num_documents());
    if (absl::IsNotFound(kept.status())) continue;
    RETURN_IF_ERROR(kept.status());
    return std::make_shared<const ReferenceSums>(
        ReferenceSums{.train = std::move(kept->train), .held_out = std::move(kept->eval)});
  }
  return nullptr;
}

absl::Status KeepReferences(const Curriculum& curriculum, const ReferenceSums& sums) {
  const auto& recipe = dynamic_cast<const RecipeCurriculum&>(curriculum);
  const data::PreparedData& data = recipe.data();
  data::KeptReferences kept{.train = sums.train, .eval = sums.held_out};
  const double none = std::numeric_limits<double>::quiet_NaN();
  kept.train.resize(static_cast<size_t>(data.train->num_documents()), none);
  kept.eval.resize(data.eval == nullptr ? 0 : static_cast<size_t>(data.eval->num_documents()),
                   none);
  return data::WriteReferences(
      ReferencesPath(*data.train, recipe.recipe_stem(), recipe.recipe().first_step_of_pass(1)),
      kept);
}

// Of a job that trains nothing.
absl::StatusOr<std::shared_ptr<const Curriculum>> PreparePromptsOf(const config::JobSpec& spec) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(model::ModelConfig model, planner::ReadBaseModel(spec, &warnings));
  ASSIGN_OR_RETURN(data::PreparedPrompts prompts, data::PreparePrompts(spec));
  data::PreparedData tokens;
  tokens.vocab_size = prompts.tokenizer->vocab_size();
  tokens.added_tokens = static_cast<int64_t>(prompts.tokenizer->added().size());
  RETURN_IF_ERROR(planner::GrowVocabulary(tokens, &model));
  Questions questions = QuestionsOf(spec, std::move(prompts));
  RETURN_IF_ERROR(planner::GenerationOf(spec, ExtentsOf(questions)).status());
  return std::make_shared<PromptCurriculum>(std::move(model), std::move(questions),
                                            Sha256(absl::StrCat("generate ", spec.model_path)));
}

absl::StatusOr<std::shared_ptr<const RecipeCurriculum>> PrepareTraining(
    const std::string& cache_dir, const config::JobSpec& spec, const PrepareHooks& hooks) {
  data::PrepareOptions options;
  options.cache_dir = cache_dir;
  options.progress = hooks.progress;
  options.cancelled = hooks.cancelled;
  ASSIGN_OR_RETURN(planner::JobFiles read, planner::ReadJobFiles(spec, options));
  ASSIGN_OR_RETURN(planner::JobRecipe made, planner::MakeJobRecipe(spec, hooks.cancelled, &read));
  read.data.warnings = std::move(read.warnings);
  plan::DocumentLoss loss = planner::DocumentLossOf(spec);
  ASSIGN_OR_RETURN(std::shared_ptr<const ReferenceSums> references,
                   KeptBefore(loss, read.data, made.recipe));
  return std::make_shared<RecipeCurriculum>(
      std::move(read.model), std::move(read.data), std::move(made.recipe),
      QuestionsOf(spec, std::move(made.prompts)), std::move(loss), std::move(references));
}

absl::StatusOr<std::shared_ptr<const Curriculum>> PrepareJob(const std::string& cache_dir,
                                                             const config::JobSpec& spec,
                                                             const PrepareHooks& hooks) {
  if (config::OnlyGenerates(spec)) return PreparePromptsOf(spec);
  return PrepareTraining(cache_dir, spec, hooks);
}

planner::WorkerResources Resources(const WorkerFacts& workers) {
  planner::WorkerResources resources;
  resources.memory_bytes = workers.memory_bytes;
  resources.compute_capability = workers.compute_capability;
  resources.links = workers.links;
  resources.ranks_of_hosts = workers.ranks_of_hosts;
  resources.host_bytes = workers.host_bytes;
  resources.gpu = workers.gpu;
  if (workers.threads > 0) resources.threads = workers.threads;
  return resources;
}

// On a GPU every bin takes sequence_len slots and every micro-step all of its bins.
BinWork WorkOf(const plan::Plan& plan) {
  const double linear = model::TrainingFlops(plan.model, plan.parameters, 0).total();
  if (plan.device != DeviceKind::kCuda) return {.per_token = linear};
  return {.per_token = 0,
          .per_bin = linear * static_cast<double>(plan.sequence_len),
          .micro_step_bins = plan.micro_batch_bins};
}

absl::StatusOr<planner::PlannedJob> PlanJob(const std::string& job, const config::JobSpec& spec,
                                            const Curriculum& curriculum,
                                            const WorkerFacts& workers,
                                            const checkpoint::Manifest* extended) {
  const planner::PromptExtents prompts = ExtentsOf(curriculum.questions());
  const planner::Recipe* const recipe = curriculum.training_recipe();
  if (recipe == nullptr) {
    return planner::MakeGenerationPlan(job, spec, curriculum.model(), prompts, Resources(workers));
  }
  ASSIGN_OR_RETURN(const plan::Generation generation, planner::GenerationOf(spec, prompts));
  ASSIGN_OR_RETURN(
      planner::PlannedJob planned,
      planner::MakePlan(job, spec, curriculum.model(), *recipe, Resources(workers), generation));
  if (extended != nullptr) {
    planned.advice.push_back(
        planner::ExtensionText(spec, *recipe, extended->run.step, extended->total_steps));
  }
  return planned;
}

absl::StatusOr<GangPlan> PlanGang(const PlanInput& input) {
  ASSIGN_OR_RETURN(planner::PlannedJob planned, PlanJob(input.job, *input.spec, *input.curriculum,
                                                        input.workers, input.extended));
  GangPlan plan;
  plan.bytes = std::move(planned.bytes);
  plan.hash = std::move(planned.hash);
  plan.advice = std::move(planned.advice);
  const planner::Estimate& estimate = planned.estimate;
  plan.flops_per_token = estimate.flops_per_token;
  plan.micro_batch_bins = planned.plan.micro_batch_bins;
  plan.checkpoint_bytes = plan::CheckpointBytes(planned.plan);
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

absl::StatusOr<GangPlan> ReadGangPlan(const std::string& bytes, const Curriculum& curriculum) {
  ASSIGN_OR_RETURN(const plan::Plan read, plan::ParsePlan(bytes));
  if (read.recipe_hash != curriculum.recipe_hash()) {
    return absl::FailedPreconditionError(
        absl::StrCat("its plan is of recipe ", ToHex(read.recipe_hash), ", the job's is ",
                     ToHex(curriculum.recipe_hash()), " now: did its data change?"));
  }
  const planner::Recipe* const recipe = curriculum.training_recipe();
  GangPlan plan;
  plan.bytes = bytes;
  plan.hash = plan::PlanHash(bytes);
  plan.flops_per_token =
      recipe == nullptr
          ? planner::GenerationFlopsPerToken(read)
          : model::TrainingFlops(read.model, read.parameters, recipe->attention_span()).total();
  plan.micro_batch_bins = read.micro_batch_bins;
  plan.checkpoint_bytes = plan::CheckpointBytes(read);
  plan.work = WorkOf(read);
  plan.predicted = read.predicted;
  plan.links_measured = read.links_measured;
  return plan;
}

absl::StatusOr<exports::ExportRequest> RequestOf(const ExportInput& input) {
  ASSIGN_OR_RETURN(plan::Plan plan, plan::ParsePlan(input.plan_bytes));
  ASSIGN_OR_RETURN(data::TrainedChat chat, data::TrainedChatOf(input.spec));
  return exports::ExportRequest{.job = input.spec,
                                .plan = std::move(plan),
                                .checkpoint_dir = input.checkpoint_dir,
                                .format = {std::move(chat.chat_template), std::move(chat.ends)},
                                .owner = input.owner,
                                .author = input.author,
                                .guard = input.guard};
}

// As a job that goes on from the adapter reads its settings.
std::string WhyRefused(const exports::ExportRequest& request, const StagedFolder& folder) {
  if (!folder.adapter) return "";
  config::JobSpec reading = request.job;
  reading.lora.init_from = folder.directory;
  return std::string(planner::CheckAdapterSettings(reading, request.plan.model).message());
}

absl::StatusOr<StagedExport> StageExport(Files* files, const ExportInput& input) {
  ASSIGN_OR_RETURN(const exports::ExportRequest request, RequestOf(input));
  ASSIGN_OR_RETURN(StagedExport staged, exports::StageArtifacts(files, request));
  for (StagedFolder& folder : staged.folders) folder.refused = WhyRefused(request, folder);
  return staged;
}

absl::StatusOr<ExportedTo> ExportJob(Files* files, const ExportInput& input) {
  ASSIGN_OR_RETURN(const exports::ExportRequest request, RequestOf(input));
  StagedExport staged;
  if (input.staged) {
    staged = *input.staged;
  } else {
    ASSIGN_OR_RETURN(staged, exports::StageArtifacts(files, request));
    for (StagedFolder& folder : staged.folders) folder.verification.reason = input.unverified;
  }
  ASSIGN_OR_RETURN(const exports::ExportResult result,
                   exports::PublishArtifacts(files, request, staged));
  ExportedTo to{.directory = result.directory,
                .merged_directory = result.merged_directory,
                .digest = result.digest,
                .merged_digest = result.merged_digest,
                .replaced = result.replaced};
  for (const StagedFolder& folder : staged.folders) {
    to.verifications.push_back(folder.verification);
    if (!folder.gguf.artifact.empty()) to.verifications.push_back(folder.gguf);
  }
  return to;
}

// The files that the manifest names, whatever else lies there by now.
absl::StatusOr<hub::PushRequest> PushRequestOf(Files* files, const PushInput& input) {
  ASSIGN_OR_RETURN(const Seal seal, ReadSeal(files, input.directory));
  if (seal.digest != input.digest) {
    return absl::NotFoundError(absl::StrCat(input.directory, " holds the export of job ",
                                            seal.author.job, " by now: manifest ",
                                            ToHex(seal.digest), ", not ", ToHex(input.digest)));
  }
  ASSIGN_OR_RETURN(
      hub::Repository repository,
      hub::MakeRepository(hub::RepositoryType::kModel, input.to.repo, input.to.revision));
  hub::PushRequest request{
      .repository = std::move(repository),
      .is_private = input.to.is_private,
      .folder = input.directory,
      .files = {},
      .card = exports::ModelCard(input.directory),
      .message = absl::StrCat("Step ", seal.author.step, " of job ", input.job, ", by Coxswain")};
  for (const ManifestFile& file : seal.files) request.files.push_back(file.name);
  return request;
}

absl::StatusOr<PushedTo> PushJob(Files* files, const sources::HubAccess& access,
                                 const PushInput& input) {
  ASSIGN_OR_RETURN(const hub::PushRequest request, PushRequestOf(files, input));
  ASSIGN_OR_RETURN(const sources::HubCaller caller, sources::CallerOf(access, input.owner));
  ASSIGN_OR_RETURN(const hub::Pushed pushed,
                   hub::PushFolder(caller.settings, request, {.cancelled = input.cancelled}));
  return PushedTo{.commit = pushed.commit, .url = pushed.url, .sent_bytes = pushed.sent_bytes};
}

}  // namespace

LaneWork MakeLaneWork(const std::string& cache_dir, Files* files,
                      const sources::HubAccess& access) {
  LaneWork work;
  work.fetch =
      [access](
          const config::JobSpec& spec, const std::string& owner,
          const sources::FetchHooks& hooks) -> absl::StatusOr<std::vector<sources::FetchedSource>> {
    ASSIGN_OR_RETURN(const sources::HubCaller caller, sources::CallerOf(access, owner));
    return sources::FetchSources(caller, spec, hooks);
  };
  work.prepare = [cache_dir](const config::JobSpec& spec, const PrepareHooks& hooks) {
    return PrepareJob(cache_dir, spec, hooks);
  };
  work.keep_references = KeepReferences;
  work.plan = PlanGang;
  work.read_plan = ReadGangPlan;
  work.stage_export = [files](const ExportInput& input) { return StageExport(files, input); };
  work.export_artifacts = [files](const ExportInput& input) { return ExportJob(files, input); };
  work.push = [files, access](const PushInput& input) { return PushJob(files, access, input); };
  return work;
}

absl::StatusOr<PlanPage> MakePlanPage(const std::string& cache_dir, Files* files,
                                      const config::JobSpec& spec, const WorkerFacts& workers,
                                      const std::function<bool()>& cancelled) {
  if (config::OnlyGenerates(spec)) {
    return absl::InvalidArgumentError("method: generate has no steps to plan; run it");
  }
  ASSIGN_OR_RETURN(
      const std::shared_ptr<const RecipeCurriculum> curriculum,
      PrepareTraining(cache_dir, spec, PrepareHooks{.progress = {}, .cancelled = cancelled}));
  ASSIGN_OR_RETURN(const std::optional<checkpoint::ResumePoint> point,
                   checkpoint::FindExtended(files, spec, NameOf(*curriculum)));
  ASSIGN_OR_RETURN(const planner::PlannedJob planned, PlanJob(spec.name, spec, *curriculum, workers,
                                                              point ? &point->manifest : nullptr));
  return PlanPage{planner::FormatPlan(spec, curriculum->recipe(), planned, curriculum->data()),
                  planner::PlanJson(spec, curriculum->recipe(), planned, curriculum->data())};
}

}  // namespace coxswain::driver
