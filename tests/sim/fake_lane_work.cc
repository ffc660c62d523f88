#include "tests/sim/fake_lane_work.h"

#include <memory>
#include <string>

#include "common/hash.h"
#include "common/status_macros.h"

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

absl::StatusOr<driver::ExportedTo> ExportShard(Files* files, const driver::ExportInput& input) {
  driver::ExportedTo to{.directory = input.spec.output_dir + "/adapter", .merged_directory = ""};
  RETURN_IF_ERROR(files->MakeDirs(to.directory));
  ASSIGN_OR_RETURN(const std::string shard, files->Read(input.checkpoint_dir + "/rank-0.shard"));
  RETURN_IF_ERROR(files->WriteDurably(to.directory + "/model", shard));
  if (!input.spec.export_merge) return to;
  to.merged_directory = input.spec.output_dir + "/model";
  RETURN_IF_ERROR(files->MakeDirs(to.merged_directory));
  RETURN_IF_ERROR(files->WriteDurably(to.merged_directory + "/merged", shard));
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
    return ExportShard(fake.files, input);
  };
  return work;
}

}  // namespace coxswain::sim
