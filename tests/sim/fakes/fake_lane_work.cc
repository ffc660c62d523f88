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

// Of one file, `name`, of at least `bytes`. Returns the digest of its manifest.
absl::StatusOr<std::string> PutInPlace(Files* files, const driver::ExportInput& input,
                                       const WrittenFolder& folder, const std::string& name,
                                       size_t bytes, std::vector<std::string>* replaced) {
  const std::string kind = folder.path.substr(folder.path.rfind('/') + 1);
  const std::string staging = input.spec.output_dir + "/.staging/export-" + kind + input.owner;
  RETURN_IF_ERROR(files->RemoveAll(staging));
  RETURN_IF_ERROR(files->MakeDirs(staging));
  ASSIGN_OR_RETURN(std::string shard, files->Read(input.checkpoint_dir + "/rank-0.shard"));
  if (shard.size() < bytes) shard.resize(bytes, 'm');
  RETURN_IF_ERROR(files->WriteDurably(staging + "/" + name, shard));
  ASSIGN_OR_RETURN(std::string digest, SealFolder(files, staging, input.author));
  RETURN_IF_ERROR(input.guard([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Finding found, ReplaceWritten(files, staging, folder));
    if (!found.job.empty() && found.job != input.author.job) {
      replaced->push_back(absl::StrCat(folder.path, " of job ", found.job));
    }
    return absl::OkStatus();
  }));
  return digest;
}

absl::StatusOr<driver::ExportedTo> ExportShard(Files* files, const driver::ExportInput& input) {
  driver::ExportedTo to;
  const WrittenFolder adapter = AdapterFolder(input.spec.output_dir);
  ASSIGN_OR_RETURN(to.digest, PutInPlace(files, input, adapter, "model", 0, &to.replaced));
  to.directory = adapter.path;
  if (!input.spec.export_merge) return to;
  const WrittenFolder merged = ModelFolder(input.spec.output_dir);
  ASSIGN_OR_RETURN(to.merged_digest,
                   PutInPlace(files, input, merged, "merged", kMergedBytes, &to.replaced));
  to.merged_directory = merged.path;
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
