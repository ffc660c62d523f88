#include "controller/driver/checkpoint_files.h"

#include <gtest/gtest.h>

#include "common/hash.h"
#include "tests/sim/memory_files.h"

namespace coxswain::driver {
namespace {

class CheckpointFilesTest : public testing::Test {
 protected:
  absl::StatusOr<Manifest> Save(int64_t step, const std::string& job = "job", uint64_t term = 1,
                                uint64_t epoch = 1, const std::string& recipe = "recipe") {
    const std::string staging = StagingDirectory("/out", step, epoch);
    EXPECT_TRUE(files_.MakeDirs(staging).ok());
    const std::string shard = "tensors of " + job + std::to_string(step);
    EXPECT_TRUE(files_.WriteDurably(staging + "/rank-0.safetensors", shard).ok());
    Manifest manifest{.job = job, .term = term, .epoch = epoch, .recipe_hash = recipe};
    manifest.run.step = step;
    manifest.run.loss = 1.25;
    manifest.run.grad_norm = 0.5;
    manifest.run.seconds = 60.5;
    manifest.run.evals = {{0, 2.5, 0.25}, {step, 1.5, 0.5}};
    manifest.run.early_stop = {.best = EvalPoint{step, 1.5, 0.5}, .without_improvement = 1};
    manifest.run.skipped = {.total = 2, .in_a_row = 1, .recent = {3, 5}};
    manifest.files = {
        {"rank-0.safetensors", static_cast<int64_t>(shard.size()), ToHex(Sha256(shard))}};
    return CommitCheckpoint(&files_, {"/out", manifest, "{}"});
  }
  absl::StatusOr<std::optional<ResumePoint>> Find(bool own_only = false,
                                                  const std::string& explicit_dir = "",
                                                  const std::string& recipe = "recipe") {
    return FindResumePoint(&files_, {.job = "job",
                                     .output_dir = "/out",
                                     .recipe_hash = recipe,
                                     .own_only = own_only,
                                     .explicit_dir = explicit_dir});
  }
  sim::MemoryFiles files_;
};

// Invariant driver-7: renamed into place whole.
TEST_F(CheckpointFilesTest, CommitMovesStagingToItsNameAndVerifies) {
  const Manifest saved = *Save(40);
  EXPECT_EQ(CheckpointDirectory("/out", 40), "/out/checkpoint-40");
  EXPECT_FALSE(files_.Exists(StagingDirectory("/out", 40, 1)));
  const Manifest read = *VerifyCheckpoint(&files_, "/out/checkpoint-40");
  EXPECT_EQ(read, saved);
  EXPECT_EQ(read.files.size(), 2u);  // the shard and trainer_state.json
}

TEST_F(CheckpointFilesTest, AShardThatIsNotWhatItsRankReportedIsRefused) {
  ASSERT_TRUE(files_.MakeDirs(StagingDirectory("/out", 5, 1)).ok());
  Manifest manifest{.job = "job", .epoch = 1};
  manifest.run.step = 5;
  ASSERT_TRUE(files_.WriteDurably(StagingDirectory("/out", 5, 1) + "/a", "torn").ok());
  manifest.files = {{"a", 4, ToHex(Sha256("whole"))}};
  EXPECT_EQ(CommitCheckpoint(&files_, {"/out", manifest, "{}"}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(files_.Exists("/out/checkpoint-5"));
}

// Invariant driver-7: what does not verify is no checkpoint.
TEST_F(CheckpointFilesTest, ResumesFromTheNewestThatVerifies) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(20).ok());
  EXPECT_EQ((*Find())->manifest.run.step, 20);
  ASSERT_TRUE(files_.WriteDurably("/out/checkpoint-20/rank-0.safetensors", "bit flip").ok());
  const auto found = *Find();
  EXPECT_EQ(found->manifest.run.step, 10);
  EXPECT_EQ(found->warnings.size(), 1u);
}

TEST_F(CheckpointFilesTest, DirectoriesOfOtherProgramsAreNoCheckpoints) {
  ASSERT_TRUE(files_.MakeDirs("/out/checkpoint-99").ok());
  ASSERT_TRUE(files_.MakeDirs("/out/checkpoint-abc").ok());
  EXPECT_FALSE(Find()->has_value());
  EXPECT_EQ(CheckpointStep("checkpoint-12x"), -1);
  EXPECT_EQ(CheckpointStep("checkpoint-"), -1);
}

TEST_F(CheckpointFilesTest, AnotherRecipeInTheSameDirectoryIsAnError) {
  ASSERT_TRUE(Save(10, "other", 1, 1, "another recipe").ok());
  ASSERT_TRUE(Save(20, "other", 1, 1, "another recipe").ok());
  EXPECT_EQ(Find().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Find().status().message().find("/out/checkpoint-20:"), absl::string_view::npos);
  EXPECT_FALSE(Find(/*own_only=*/true)->has_value());  // resume: never
}

TEST_F(CheckpointFilesTest, ResumeNeverTakesOnlyOwnCheckpoints) {
  ASSERT_TRUE(Save(30, "other").ok());
  ASSERT_TRUE(Save(10, "job").ok());
  EXPECT_EQ((*Find())->manifest.run.step, 30);
  EXPECT_EQ((*Find(true))->manifest.run.step, 10);
}

TEST_F(CheckpointFilesTest, AnExplicitStartMustVerifyAndHaveTheRecipe) {
  ASSERT_TRUE(Save(30, "other").ok());
  EXPECT_EQ((*Find(true, "/out/checkpoint-30"))->manifest.run.step, 30);
  EXPECT_EQ(Find(true, "/out/checkpoint-30", "mine").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Find(true, "/elsewhere").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointFilesTest, OnlyALaterTermAndEpochReplacesAJobsOwnCheckpoint) {
  ASSERT_TRUE(Save(10, "job", 3, 4).ok());
  EXPECT_EQ(Save(10, "job", 3, 4).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Save(10, "job", 2, 9).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(VerifyCheckpoint(&files_, "/out/checkpoint-10")->epoch, 4u);
  ASSERT_TRUE(Save(10, "job", 3, 5).ok());
  EXPECT_EQ(VerifyCheckpoint(&files_, "/out/checkpoint-10")->epoch, 5u);
}

TEST_F(CheckpointFilesTest, ACheckpointOfAnEarlierRunIsReplaced) {
  ASSERT_TRUE(Save(10, "old", 3, 4).ok());
  ASSERT_TRUE(Save(10, "new", 1, 1).ok());
  EXPECT_EQ(VerifyCheckpoint(&files_, "/out/checkpoint-10")->job, "new");
}

TEST_F(CheckpointFilesTest, SweepsStagingOfEarlierEpochsOnly) {
  ASSERT_TRUE(files_.MakeDirs(StagingDirectory("/out", 10, 1)).ok());
  ASSERT_TRUE(files_.MakeDirs(StagingDirectory("/out", 12, 3)).ok());
  ASSERT_TRUE(SweepStaging(&files_, "/out", 3).ok());
  EXPECT_FALSE(files_.Exists(StagingDirectory("/out", 10, 1)));
  EXPECT_TRUE(files_.Exists(StagingDirectory("/out", 12, 3)));
}

// Invariant driver-7: the best stays.
TEST(SupersededTest, KeepsTheNewestAtLeastTwoAndTheBest) {
  EXPECT_EQ(Superseded({10, 20, 30, 40}, 2, -1), (std::vector<int64_t>{20, 10}));
  EXPECT_EQ(Superseded({10, 20, 30, 40}, 2, 10), (std::vector<int64_t>{20}));
  EXPECT_EQ(Superseded({10, 20, 30}, 1, -1), (std::vector<int64_t>{10}));
  EXPECT_TRUE(Superseded({10, 20}, 1, -1).empty());
}

TEST(ManifestTest, GarbageNamesThePath) {
  for (const char* text : {"", "{}", "[1]", "{\"format\":\"coxswain-checkpoint/1\"}"}) {
    const auto manifest = ParseManifest(text, "/x/manifest.json");
    EXPECT_EQ(manifest.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_NE(manifest.status().message().find("/x/manifest.json"), absl::string_view::npos);
  }
}

TEST(ManifestTest, AFileNameThatLeavesTheDirectoryIsRefused) {
  Manifest manifest;
  manifest.files = {{"../../etc/passwd", 1, ""}};
  EXPECT_FALSE(ParseManifest(ToJson(manifest), "m").ok());
}

}  // namespace
}  // namespace coxswain::driver
