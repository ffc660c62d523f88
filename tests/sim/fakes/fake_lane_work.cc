#include "tests/sim/fakes/fake_lane_work.h"

#include <memory>
#include <string>

#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/folders/seal_folder.h"
#include "controller/folders/written_folder.h"

namespace coxswain::sim {
namespace {

driver::GangPlan MakePlan(const std::string& bytes, const driver::BinWork& work,
                          bool links_measured) {
  return {.bytes = bytes,
          .hash = Sha256(bytes),
          .memory = {},
          .advice = {},
          .flops_per_token = 1000,
          .micro_batch_bins = 2,
          .work = work,
          .predicted = {},
          .links_measured = links_measured};
}

// So that its longest answer takes some commands.
constexpr int kPromptsOfGeneration = 6;

// Of a merged model: more than a block of digests.
constexpr size_t kMergedBytes = 5'000'000;

// Of one file, `name`, of at least `bytes`.
absl::StatusOr<StagedFolder> StageFolder(Files* files, const driver::ExportInput& input,
                                         bool adapter, const std::string& name, size_t bytes) {
  const std::string kind = adapter ? "adapter" : "model";
  StagedFolder folder{.directory = input.spec.output_dir + "/.staging/export-" + kind + input.owner,
                      .adapter = adapter,
                      .verification = {.artifact = kind, .bound_from = "equal bits"}};
  RETURN_IF_ERROR(files->RemoveAll(folder.directory));
  RETURN_IF_ERROR(files->MakeDirs(folder.directory));
  ASSIGN_OR_RETURN(std::string shard, files->Read(input.checkpoint_dir + "/rank-0.shard"));
  if (shard.size() < bytes) shard.resize(bytes, 'm');
  RETURN_IF_ERROR(files->WriteDurably(folder.directory + "/" + name, shard));
  return folder;
}

absl::StatusOr<StagedExport> StageShard(Files* files, const driver::ExportInput& input) {
  StagedExport staged;
  ASSIGN_OR_RETURN(staged.folders.emplace_back(), StageFolder(files, input, true, "model", 0));
  if (!input.spec.export_merge) return staged;
  ASSIGN_OR_RETURN(staged.folders.emplace_back(),
                   StageFolder(files, input, false, "merged", kMergedBytes));
  return staged;
}

// Returns the digest of the manifest of what was staged.
absl::StatusOr<std::string> PutInPlace(Files* files, const driver::ExportInput& input,
                                       const StagedFolder& staged, const WrittenFolder& folder,
                                       std::vector<std::string>* replaced) {
  ASSIGN_OR_RETURN(std::string digest, SealFolder(files, staged.directory, input.author,
                                                  staged.verification, staged.gguf));
  RETURN_IF_ERROR(input.guard([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Finding found, ReplaceWritten(files, staged.directory, folder));
    if (!found.job.empty() && found.job != input.author.job) {
      replaced->push_back(absl::StrCat(folder.path, " of job ", found.job));
    }
    return absl::OkStatus();
  }));
  return digest;
}

absl::StatusOr<driver::ExportedTo> ExportShard(Files* files, const driver::ExportInput& input) {
  StagedExport staged;
  if (input.staged) {
    staged = *input.staged;
  } else {
    ASSIGN_OR_RETURN(staged, StageShard(files, input));
    for (StagedFolder& folder : staged.folders) folder.verification.reason = input.unverified;
  }
  driver::ExportedTo to;
  for (const StagedFolder& folder : staged.folders) {
    const WrittenFolder target =
        folder.adapter ? AdapterFolder(input.spec.output_dir) : ModelFolder(input.spec.output_dir);
    ASSIGN_OR_RETURN(const std::string digest,
                     PutInPlace(files, input, folder, target, &to.replaced));
    (folder.adapter ? to.digest : to.merged_digest) = digest;
    (folder.adapter ? to.directory : to.merged_directory) = target.path;
    to.verifications.push_back(folder.verification);
  }
  return to;
}

}  // namespace

driver::LaneWork MakeFakeLaneWork(const FakeLaneWork& fake) {
  driver::LaneWork work;
  work.prepare = [fake](const config::JobSpec& spec, const driver::PrepareHooks& hooks)
      -> absl::StatusOr<std::shared_ptr<const driver::Curriculum>> {
    hooks.progress(0.5);
    RETURN_IF_ERROR(*fake.prepare_error);
    SyntheticShape shape = fake.shape;
    shape.steps = spec.train.max_steps.value_or(shape.steps);
    if (config::OnlyGenerates(spec)) {
      shape = {.steps = 0,
               .eval_bins = 0,
               .answer_tokens = spec.generate.max_new_tokens,
               .prompts = kPromptsOfGeneration};
    }
    return std::make_shared<SyntheticCurriculum>(shape);
  };
  work.plan = [fake](const driver::PlanInput& input) -> absl::StatusOr<driver::GangPlan> {
    return MakePlan("plan of " + input.job, fake.work, !input.workers.links.empty());
  };
  work.read_plan = [fake](const std::string& bytes,
                          const driver::Curriculum&) -> absl::StatusOr<driver::GangPlan> {
    return MakePlan(bytes, fake.work, true);
  };
  work.stage_export = [fake](const driver::ExportInput& input) {
    return StageShard(fake.files, input);
  };
  work.export_artifacts = [fake](const driver::ExportInput& input) {
    ++*fake.exports;
    return ExportShard(fake.files, input);
  };
  work.push = [fake](const driver::PushInput& input) -> absl::StatusOr<driver::PushedTo> {
    RETURN_IF_ERROR(*fake.push_error);
    return driver::PushedTo{.commit = std::string(40, 'c'),
                            .url = "https://hub/" + input.to.repo + "/commit/c",
                            .sent_bytes = 7};
  };
  return work;
}

}  // namespace coxswain::sim
