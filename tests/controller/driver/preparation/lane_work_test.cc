// What lanes compute, over the quickstart's model: the real preparation and the real planner, for a
// job that trains and for one that only generates.
#include "controller/driver/preparation/lane_work.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "common/plan/checks/plan_bytes.h"
#include "controller/driver/training/curriculum.h"
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

config::JobSpec SpecOf(const std::string& rest) {
  const std::string folder = std::filesystem::absolute("deploy/quickstart").string();
  config::ParsedJob parsed = config::ParseJob(kHead + rest, folder);
  EXPECT_TRUE(parsed.errors.empty()) << config::FormatErrors(parsed.errors, "job.yaml");
  return std::move(parsed.spec);
}

class LaneWorkTest : public testing::TestWithParam<const char*> {
 protected:
  LaneWorkTest() : spec_(SpecOf(GetParam())) {}

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

TEST(PlanPageOfWorkersTest, HasTheRatesOfTheirGpu) {
  const support::ScratchFolder cache;
  DiskFiles files;
  config::JobSpec spec = SpecOf(kTrains);
  spec.device = config::Device::kCuda;
  const auto predicted = [&](const Gpu& gpu) {
    const auto page = MakePlanPage(cache.path(), &files, spec, {.gpu = gpu}, {});
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? nlohmann::json::parse(page->json).at("predicted") : nlohmann::json();
  };
  EXPECT_EQ(predicted(GpuOf("NVIDIA H100 80GB HBM3"))["gpu"], "H100 SXM");
  EXPECT_EQ(predicted(GpuOf("NVIDIA H20", {300e12, 3e12}))["rates"], "probe");
  EXPECT_TRUE(predicted({})["seconds"].is_null());
}

constexpr int kPairs = 6;

// Of one pair a step, in full: what the policy was at step 0 has to be kept.
class KeptReferencesTest : public testing::Test {
 protected:
  KeptReferencesTest() {
    std::ofstream file(pairs_);
    for (int i = 0; i < kPairs; ++i) {
      file << absl::StrCat(R"({"prompt": "Say )", i, R"(", "chosen": "Yes, )", i,
                           R"(", "rejected": "No, never )", i, "\"}\n");
    }
  }
  std::shared_ptr<const Curriculum> Prepare(int steps) {
    const config::JobSpec spec = SpecOf(absl::StrCat(
        "  method: dpo\n  adapter: none\n  sequence_len: 64\n  packing: {strategy: none}\n"
        "  datasets: [{path: ",
        pairs_, "}]\n  train: {max_steps: ", steps, ", global_batch_size: 1}\n"));
    auto curriculum = work_.prepare(spec, {.progress = [](double) {}, .cancelled = {}});
    EXPECT_TRUE(curriculum.ok()) << curriculum.status();
    return curriculum.ok() ? *curriculum : nullptr;
  }
  // As the program tells them: NaN of documents that no step reads.
  static ReferenceSums SumsOf(int pairs, double value) {
    ReferenceSums sums{.train = std::vector<double>(2 * kPairs, std::nan("")), .held_out = {}};
    std::fill_n(sums.train.begin(), 2 * pairs, value);
    return sums;
  }

  support::ScratchFolder cache_;
  const std::string pairs_ = absl::StrCat(cache_.path(), "/pairs.jsonl");
  DiskFiles files_;
  const LaneWork work_ = MakeLaneWork(absl::StrCat(cache_.path(), "/cache"), &files_);
};

// What a shorter job computed lacks documents that a longer one reads.
TEST_F(KeptReferencesTest, AreOfAsManySteps) {
  const std::shared_ptr<const Curriculum> few = Prepare(2);
  ASSERT_NE(few, nullptr);
  EXPECT_EQ(few->references(), nullptr);
  ASSERT_TRUE(work_.keep_references(*few, SumsOf(2, -1)).ok());
  ASSERT_NE(Prepare(2)->references(), nullptr);
  EXPECT_EQ(Prepare(2)->references()->train.front(), -1);
  EXPECT_EQ(Prepare(3)->references(), nullptr);
  EXPECT_EQ(Prepare(2 * kPairs)->references(), nullptr);
}

// Those of a whole pass serve any length, and a shorter job does not overwrite them.
TEST_F(KeptReferencesTest, OfAWholePassServeEveryLength) {
  const std::shared_ptr<const Curriculum> all = Prepare(2 * kPairs);
  ASSERT_NE(all, nullptr);
  ASSERT_TRUE(work_.keep_references(*all, SumsOf(kPairs, -2)).ok());
  for (const int steps : {1, kPairs, 3 * kPairs}) {
    const auto found = Prepare(steps)->references();
    ASSERT_NE(found, nullptr) << steps;
    EXPECT_EQ(found->train.back(), -2) << steps;
  }
  ASSERT_TRUE(work_.keep_references(*Prepare(1), SumsOf(1, -3)).ok());
  EXPECT_EQ(Prepare(2 * kPairs)->references()->train.back(), -2);
}

}  // namespace
}  // namespace coxswain::driver
