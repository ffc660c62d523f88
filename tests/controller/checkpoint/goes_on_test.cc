// Another learning rate, or more steps, in a folder that holds checkpoints.
#include "controller/checkpoint/goes_on.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/config/schema/recipe_keys.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/other_recipe.h"
#include "tests/sim/fakes/memory_files.h"

namespace coxswain::checkpoint {
namespace {

class GoesOnTest : public testing::Test {
 protected:
  static config::ParsedJob JobOf(const std::string& train, const std::string& checkpoint = "") {
    config::ParsedJob job =
        config::ParseJob(absl::StrCat(R"(
apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: tiny}
spec:
  base_model: /model
  datasets: [{path: /data.jsonl}]
  resources: {device: cpu}
  checkpoint: {output_dir: /out, )",
                                      checkpoint, "}\n  train: {", train, "}\n"),
                         "/");
    EXPECT_TRUE(job.errors.empty()) << config::FormatErrors(job.errors, "job.yaml");
    return job;
  }
  // A checkpoint of a job with these train keys, whose recipe has 20 steps.
  void Save(int64_t step, const std::string& train) {
    Manifest manifest{.job = "first", .recipe_hash = "first", .recipe_stem = "stem"};
    manifest.total_steps = 20;
    manifest.run.step = step;
    manifest.effective_json = JobOf(train).effective_json;
    const std::string directory = CheckpointDirectory("/out", step);
    ASSERT_TRUE(files_.MakeDirs(directory).ok());
    ASSERT_TRUE(files_.WriteDurably(directory + "/manifest.json", ToJson(manifest)).ok());
  }
  absl::Status Check(const std::string& train, const std::string& checkpoint = "") {
    return CheckGoesOn(&files_, JobOf(train, checkpoint));
  }
  static void Says(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_NE(status.message().find(what), absl::string_view::npos) << status;
  }
  sim::MemoryFiles files_;
};

TEST_F(GoesOnTest, AnotherLearningRateIsRefusedWithBothAndWhatToDo) {
  Save(10, "learning_rate: 1e-4, num_epochs: 1");
  Save(20, "learning_rate: 1e-4, num_epochs: 1");
  const absl::Status status = Check("learning_rate: 2e-4, num_epochs: 1");
  Says(status,
       "/out/checkpoint-20: belongs to another recipe: train.learning_rate is 0.0001 there "
       "and 0.0002 here.");
  for (const char* way_out : {"another checkpoint.output_dir", "lora.init_from", "resume: never"}) {
    Says(status, way_out);
  }
  EXPECT_TRUE(Check("learning_rate: 1e-4, num_epochs: 1").ok());
}

TEST_F(GoesOnTest, MoreStepsAreRefusedUnlessTheJobExtends) {
  Save(20, "learning_rate: 1e-4, num_epochs: 1");
  const absl::Status passes = Check("learning_rate: 1e-4, num_epochs: 2");
  Says(passes,
       "/out/checkpoint-20: train.num_epochs is 1.0 there and 2.0 here; no other key that is "
       "compared before the data is read differs");
  Says(passes, "Set checkpoint.extend: true to go on from step 20");
  Says(Check("learning_rate: 1e-4, max_steps: 40"), "train.max_steps is null there and 40 here");
  EXPECT_TRUE(Check("learning_rate: 1e-4, max_steps: 20").ok());  // as many steps
  EXPECT_TRUE(Check("learning_rate: 1e-4, num_epochs: 2", "extend: true").ok());
  Says(Check("learning_rate: 2e-4, num_epochs: 2", "extend: true"),
       "train.learning_rate is 0.0001 there and 0.0002 here");
}

TEST_F(GoesOnTest, WhatTheFilesDecideIsLeftToThem) {
  Save(20, "learning_rate: 1e-4, max_steps: 20, warmup_steps: 2");
  // As many steps of warm-up, said in another way.
  EXPECT_TRUE(Check("learning_rate: 1e-4, max_steps: 20, warmup_ratio: 0.1").ok());
}

TEST_F(GoesOnTest, AJobThatStartsOverOrFindsOneOfItsOwnIsNotRefused) {
  Save(20, "learning_rate: 1e-4, max_steps: 20");
  EXPECT_TRUE(Check("learning_rate: 2e-4, max_steps: 20", "resume: never").ok());
  Says(Check("learning_rate: 2e-4, max_steps: 20", "resume: /out/checkpoint-20"),
       "train.learning_rate");
  Save(10, "learning_rate: 2e-4, max_steps: 20");
  EXPECT_TRUE(Check("learning_rate: 2e-4, max_steps: 20").ok());
}

TEST_F(GoesOnTest, OfAnEarlierReleaseNothingIsKnownBeforehand) {
  Save(20, "learning_rate: 1e-4, max_steps: 20");
  Manifest manifest = *ReadManifest(&files_, "/out/checkpoint-20");
  manifest.effective_json.clear();
  ASSERT_TRUE(files_.WriteDurably("/out/checkpoint-20/manifest.json", ToJson(manifest)).ok());
  EXPECT_TRUE(Check("learning_rate: 2e-4, max_steps: 40").ok());
}

TEST_F(GoesOnTest, TheErrorIsThatOfTheFolder) {
  Save(20, "learning_rate: 1e-4, max_steps: 20");
  config::ParsedJob job = JobOf("learning_rate: 2e-4, max_steps: 20");
  AddGoesOnErrors(&files_, &job);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "spec.checkpoint.output_dir");
  EXPECT_EQ(job.errors[0].line, 9);
}

TEST_F(GoesOnTest, AJobThatIsPreparedNamesWhatItsFilesSay) {
  Save(20, "learning_rate: 1e-4, max_steps: 20");
  Manifest found = *ReadManifest(&files_, "/out/checkpoint-20");
  found.recipe_facts["contents of datasets"] = "1a2b3c4d5e6f";
  RecipeName wanted{.hash = "second", .keys = found.recipe_keys()};
  wanted.keys["contents of datasets"] = "0f0f0f0f0f0f";
  const absl::Status status = CheckRecipe(wanted, false, "/out/checkpoint-20", found);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(
      status.message().find("contents of datasets is 1a2b3c4d5e6f there and 0f0f0f0f0f0f here"),
      absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace coxswain::checkpoint
