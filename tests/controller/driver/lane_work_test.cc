// What lanes compute, over the quickstart's model: the real preparation and the real planner, for a
// job that trains and for one that only generates.
#include "controller/driver/lane_work.h"

#include <filesystem>
#include <string>

#include "common/config/job_parser.h"
#include "common/plan/plan_bytes.h"
#include "controller/driver/curriculum.h"
#include "gtest/gtest.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::driver {
namespace {

constexpr char kHead[] =
    "apiVersion: coxswain/v1\n"
    "kind: FineTuneJob\n"
    "metadata: {name: j}\n"
    "spec:\n"
    "  base_model: model\n"
    "  checkpoint: {output_dir: /none/out}\n"
    "  resources: {device: cpu, workers: 1}\n";
constexpr char kTrains[] =
    "  adapter: lora\n"
    "  datasets: [{path: train.jsonl, format: alpaca, max_samples: 40}]\n"
    "  sequence_len: 128\n"
    "  excess_length: truncate\n"
    "  train: {max_steps: 4, global_batch_size: 2}\n";
constexpr char kGenerates[] =
    "  method: generate\n"
    "  generate: {prompts: [Why, How many], max_new_tokens: 20}\n";

class LaneWorkTest : public testing::TestWithParam<const char*> {
 protected:
  LaneWorkTest() {
    const std::string folder = std::filesystem::absolute("deploy/quickstart").string();
    config::ParsedJob parsed = config::ParseJob(std::string(kHead) + GetParam(), folder);
    EXPECT_TRUE(parsed.errors.empty()) << config::FormatErrors(parsed.errors, "job.yaml");
    spec_ = std::move(parsed.spec);
  }

  support::ScratchFolder cache_;
  DiskFiles files_;
  const LaneWork work_ = MakeLaneWork(cache_.path(), &files_);
  config::JobSpec spec_;
};

// Another controller reads the plan that a gang has, and goes on with the same numbers.
TEST_P(LaneWorkTest, APlanThatIsReadAgainSaysWhatItSaidWhenItWasMade) {
  const auto curriculum = work_.prepare(spec_, {.progress = [](double) {}, .cancelled = {}});
  ASSERT_TRUE(curriculum.ok()) << curriculum.status();
  const auto made =
      work_.plan({.job = "j-1", .spec = &spec_, .curriculum = curriculum->get(), .workers = {}});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto read = work_.read_plan(made->bytes, **curriculum);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->hash, made->hash);
  EXPECT_EQ(read->bytes, made->bytes);
  EXPECT_GT(read->flops_per_token, 0);
  EXPECT_EQ(read->flops_per_token, made->flops_per_token);
  EXPECT_EQ(read->micro_batch_bins, made->micro_batch_bins);
  EXPECT_EQ(read->checkpoint_bytes, made->checkpoint_bytes);
  EXPECT_EQ(read->work.per_token, made->work.per_token);
  EXPECT_EQ(read->predicted.step_seconds, made->predicted.step_seconds);
}

TEST_P(LaneWorkTest, APlanOfAnotherRecipeIsRefused) {
  const auto curriculum = work_.prepare(spec_, {.progress = [](double) {}, .cancelled = {}});
  ASSERT_TRUE(curriculum.ok()) << curriculum.status();
  const auto made =
      work_.plan({.job = "j-1", .spec = &spec_, .curriculum = curriculum->get(), .workers = {}});
  ASSERT_TRUE(made.ok()) << made.status();
  plan::Plan other = *plan::ParsePlan(made->bytes);
  other.recipe_hash = std::string(32, 'x');
  const auto read = work_.read_plan(plan::SerializePlan(other), **curriculum);
  EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << read.status();
}

INSTANTIATE_TEST_SUITE_P(Kinds, LaneWorkTest, testing::Values(kTrains, kGenerates),
                         [](const auto& info) {
                           return info.param == kTrains ? "Trains" : "OnlyGenerates";
                         });

}  // namespace
}  // namespace coxswain::driver
