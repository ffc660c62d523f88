#include "controller/checkpoint/checkpoint_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/files/hash.h"
#include "controller/checkpoint/room.h"
#include "tests/sim/fakes/memory_files.h"

namespace coxswain::checkpoint {
namespace {

class CheckpointFilesTest : public testing::Test {
 protected:
  absl::StatusOr<Manifest> Save(int64_t step, const std::string& job = "job", uint64_t term = 1,
                                uint64_t epoch = 1, const std::string& recipe = "recipe") {
    const std::string staging = StagingDirectory("/out", {job, term, epoch}, step);
    EXPECT_TRUE(files_.MakeDirs(staging).ok());
    const std::string shard = "tensors of " + job + std::to_string(step);
    EXPECT_TRUE(files_.WriteDurably(staging + "/rank-0.safetensors", shard).ok());
    Manifest manifest{.job = job,
                      .term = term,
                      .epoch = epoch,
                      .recipe_hash = recipe,
                      .recipe_stem = stem_,
                      .total_steps = total_steps_};
    manifest.run.step = step;
    manifest.run.loss = 1.25;
    manifest.run.grad_norm = 0.5;
    manifest.run.seconds = 60.5;
    manifest.run.evals = {{0, 2.5, 0.25},
                          {step, 1.5, 0.5, 0.625}};  // the first of an older release
    manifest.run.early_stop = {.best = EvalPoint{step, 1.5, 0.5}, .without_improvement = 1};
    manifest.run.skipped = {.total = 2, .in_a_row = 1, .recent = {3, 5}};
    manifest.files = {FileInBlocks("rank-0.safetensors", DigestsOf(shard))};
    absl::StatusOr<Committed> committed = CommitCheckpoint(&files_, {"/out", manifest, "{}"});
    if (!committed.ok()) return committed.status();
    committed_ = *committed;
    return committed_.manifest;
  }
  absl::StatusOr<std::optional<ResumePoint>> Find(bool own_only = false,
                                                  const std::string& explicit_dir = "",
                                                  const std::string& recipe = "recipe") {
    warnings_.clear();
    ResumeQuery query{
        .job = "job", .output_dir = "/out", .recipe = {.hash = recipe}, .own_only = own_only};
    if (!explicit_dir.empty()) query.explicit_starts = {{.directory = explicit_dir}};
    query.damaged = damaged_;
    return FindResumePoint(&files_, query, &warnings_);
  }
  void Damage(int64_t step) {
    EXPECT_TRUE(
        files_.WriteDurably(CheckpointDirectory("/out", step) + "/rank-0.safetensors", "bit flip")
            .ok());
  }
  // Of a byte of the shard; its size stays.
  void Flip(int64_t step) {
    const std::string path = CheckpointDirectory("/out", step) + "/rank-0.safetensors";
    std::string content = *files_.Read(path);
    content[content.size() / 2] ^= 1;
    EXPECT_TRUE(files_.WriteDurably(path, content).ok());
  }
  std::string stem_ = {};
  int64_t total_steps_ = 0;
  sim::MemoryFiles files_;
  Committed committed_;
  std::vector<std::string> warnings_;
  std::map<std::string, std::string> damaged_;
};

// Invariant driver-7: renamed into place whole.
TEST_F(CheckpointFilesTest, CommitMovesStagingToItsNameAndVerifies) {
  const Manifest saved = *Save(40);
  EXPECT_EQ(CheckpointDirectory("/out", 40), "/out/checkpoint-40");
  EXPECT_FALSE(files_.Exists(StagingDirectory("/out", {"job", 1, 1}, 40)));
  const Manifest read = *VerifyCheckpoint(&files_, "/out/checkpoint-40");
  EXPECT_EQ(read, saved);
  EXPECT_EQ(read.files.size(), 2u);  // the shard and trainer_state.json
}

TEST_F(CheckpointFilesTest, AShardThatIsNotWhatItsRankReportedIsRefused) {
  const std::string staging = StagingDirectory("/out", {"job", 0, 1}, 5);
  ASSERT_TRUE(files_.MakeDirs(staging).ok());
  Manifest manifest{.job = "job", .epoch = 1};
  manifest.run.step = 5;
  ASSERT_TRUE(files_.WriteDurably(staging + "/a", "torn").ok());
  manifest.files = {FileInBlocks("a", DigestsOf("more"))};
  EXPECT_EQ(CommitCheckpoint(&files_, {"/out", manifest, "{}"}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(files_.Exists("/out/checkpoint-5"));
}

// Invariant driver-7: what does not verify is no checkpoint.
TEST_F(CheckpointFilesTest, ResumesFromTheNewestThatVerifies) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(20).ok());
  EXPECT_EQ((*Find())->manifest.run.step, 20);
  Damage(20);
  EXPECT_EQ((*Find())->manifest.run.step, 10);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("/out/checkpoint-20/rank-0.safetensors"), std::string::npos);
}

// Invariant driver-7: the ranks that load it check its blocks, and what they find is passed over.
TEST_F(CheckpointFilesTest, BlocksAreLeftToTheRanksAndTheirVerdictIsTaken) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(20).ok());
  Flip(20);
  EXPECT_EQ((*Find())->manifest.run.step, 20);
  EXPECT_TRUE(CheckCheckpoint(&files_, "/out/checkpoint-20").ok());
  const absl::Status found = VerifyCheckpoint(&files_, "/out/checkpoint-20").status();
  EXPECT_EQ(found.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(found.message().find("/out/checkpoint-20/rank-0.safetensors: block 0 of 1"),
            absl::string_view::npos)
      << found;
  damaged_["/out/checkpoint-20"] = std::string(found.message());
  EXPECT_EQ((*Find())->manifest.run.step, 10);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("passed over: /out/checkpoint-20/rank-0.safetensors: block 0"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(CheckpointFilesTest, AnAbsentOrShorterShardIsSeenWithoutReadingIt) {
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(files_.RemoveAll("/out/checkpoint-30/rank-0.safetensors").ok());
  ASSERT_TRUE(files_.WriteDurably("/out/checkpoint-20/rank-0.safetensors", "short").ok());
  EXPECT_EQ((*Find())->manifest.run.step, 10);
  EXPECT_EQ(warnings_.size(), 2u);
}

// Of a release before blocks: nobody but the controller can hash it as a whole.
TEST_F(CheckpointFilesTest, AFileWithoutBlocksIsHashedHere) {
  ASSERT_TRUE(Save(10).ok());
  const std::string directory = "/out/checkpoint-10/";
  Manifest old = *ReadManifest(&files_, "/out/checkpoint-10");
  old.files = {FileAsWhole("rank-0.safetensors", *files_.Read(directory + "rank-0.safetensors"))};
  std::string text = ToJson(old);
  text.replace(text.find("coxswain-checkpoint/2"), 21, "coxswain-checkpoint/1");
  ASSERT_TRUE(files_.WriteDurably(directory + "manifest.json", text).ok());
  old.digest = Sha256(text);
  EXPECT_EQ((*Find())->manifest, old);
  EXPECT_TRUE(VerifyCheckpoint(&files_, "/out/checkpoint-10").ok());
  Flip(10);
  EXPECT_FALSE(Find()->has_value());
  EXPECT_NE(warnings_[0].find("has SHA-256"), std::string::npos) << warnings_[0];
}

TEST_F(CheckpointFilesTest, RoomIsAskedForBeforeItIsNeeded) {
  files_.SetFreeBytes(1000);
  EXPECT_TRUE(CheckRoom(&files_, "/out", 1000).ok());
  EXPECT_TRUE(CheckRoom(&files_, "/out", 0).ok());
  const absl::Status none = CheckRoom(&files_, "/out", 1001);
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"/out", "1001 bytes", "1000 bytes"}) {
    EXPECT_NE(none.message().find(part), absl::string_view::npos) << none;
  }
  std::string warning;
  const auto of_job = [&](int64_t bytes, int64_t at_once, int64_t kept) {
    warning.clear();
    return CheckRoomOfJob(&files_, {"/out", bytes, at_once, kept}, &warning);
  };
  EXPECT_TRUE(of_job(500, 2, 0).ok());
  EXPECT_EQ(warning, "");
  EXPECT_TRUE(of_job(500, 3, 500).ok());
  EXPECT_EQ(warning, "");
  EXPECT_TRUE(of_job(500, 3, 499).ok());
  EXPECT_NE(warning.find("up to 3 checkpoints"), std::string::npos) << warning;
  EXPECT_NE(warning.find("1500 bytes"), std::string::npos) << warning;
  EXPECT_NE(warning.find("1499 bytes"), std::string::npos) << warning;
  EXPECT_EQ(of_job(1001, 1, 0).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(of_job(1001, 1, 1).ok());  // a job that has checkpoints goes on
  EXPECT_NE(warning.find("1001 bytes"), std::string::npos) << warning;
}

// A job that starts over although it had checkpoints says so.
TEST_F(CheckpointFilesTest, ANewStartForWantOfAnIntactCheckpointIsWarnedOf) {
  ASSERT_TRUE(Save(10).ok());
  Damage(10);
  EXPECT_FALSE(Find()->has_value());
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CheckpointFilesTest, ADamagedExplicitStartFallsBackToTheOneBefore) {
  ASSERT_TRUE(Save(10, "other").ok());
  ASSERT_TRUE(Save(20, "other").ok());
  Damage(20);
  ResumeQuery query{.job = "job",
                    .output_dir = "/elsewhere",
                    .recipe = {.hash = "recipe"},
                    .own_only = true,
                    .explicit_starts = {{.directory = CheckpointDirectory("/out", 20)},
                                        {.directory = CheckpointDirectory("/out", 10)}}};
  EXPECT_EQ((*FindResumePoint(&files_, query, &warnings_))->manifest.run.step, 10);
  EXPECT_EQ(warnings_.size(), 1u);
  Damage(10);
  const absl::Status none = FindResumePoint(&files_, query, &warnings_).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(none.message().find("checkpoint-20"), absl::string_view::npos);
}

TEST_F(CheckpointFilesTest, TheFirstIntactIsFoundAndNoneNamesEveryFile) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(20).ok());
  const std::vector<KnownCheckpoint> directories = {{.directory = CheckpointDirectory("/out", 20)},
                                                    {.directory = CheckpointDirectory("/out", 10)}};
  EXPECT_EQ(*FirstIntact(&files_, directories, &warnings_), 0u);
  Damage(20);
  EXPECT_EQ(*FirstIntact(&files_, directories, &warnings_), 1u);
  EXPECT_EQ(warnings_.size(), 1u);
  ASSERT_TRUE(files_.RemoveAll("/out/checkpoint-10").ok());
  const absl::Status none = FirstIntact(&files_, directories, &warnings_).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  for (const char* file : {"/out/checkpoint-20/rank-0.safetensors", "/out/checkpoint-10"}) {
    EXPECT_NE(none.message().find(file), absl::string_view::npos) << file;
  }
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

TEST_F(CheckpointFilesTest, GangsNeverShareAStagingDirectory) {
  const std::string mine = StagingDirectory("/out", {"job-1", 2, 3}, 10);
  EXPECT_EQ(mine, "/out/.staging/step-10.job-1.t2.e3");
  EXPECT_NE(mine, StagingDirectory("/out", {"job-2", 2, 3}, 10));
  EXPECT_NE(mine, StagingDirectory("/out", {"job-1", 1, 3}, 10));
  EXPECT_NE(mine, StagingDirectory("/out", {"job-1", 2, 2}, 10));
}

TEST_F(CheckpointFilesTest, SweepsWhatUnfinishedWorkLeftAndNothingElse) {
  const std::string root = "/out/.staging/";
  const std::vector<std::string> left = {"step-10.job-1.t1.e1", "step-12.epoch-3", "export-model",
                                         "export-adapter.job-1.t1.e1"};
  for (const std::string& name : left) ASSERT_TRUE(files_.MakeDirs(root + name).ok());
  ASSERT_TRUE(files_.MakeDirs(root + "notes").ok());
  ASSERT_TRUE(files_.WriteDurably(root + "nonce-job-1-1", "x").ok());
  ASSERT_TRUE(SweepStaging(&files_, "/out").ok());
  for (const std::string& name : left) EXPECT_FALSE(files_.Exists(root + name)) << name;
  EXPECT_FALSE(files_.Exists(root + "nonce-job-1-1"));
  EXPECT_TRUE(files_.Exists(root + "notes"));
}

TEST_F(CheckpointFilesTest, WhoLeavesTakesTheStagingDirectoryAlongUnlessAFileStaysInIt) {
  ASSERT_TRUE(files_.MakeDirs("/out").ok());
  ASSERT_TRUE(LeaveStaging(&files_, "/out").ok());  // none there
  const std::string root = "/out/.staging";
  ASSERT_TRUE(files_.MakeDirs(root + "/step-10.job-1.t1.e1").ok());
  ASSERT_TRUE(SweepStaging(&files_, "/out").ok());
  EXPECT_TRUE(files_.Exists(root));  // more is written there
  ASSERT_TRUE(files_.WriteDurably(root + "/mine.txt", "a user's").ok());
  ASSERT_TRUE(LeaveStaging(&files_, "/out").ok());
  EXPECT_TRUE(files_.Exists(root + "/mine.txt"));
  ASSERT_TRUE(files_.RemoveAll(root + "/mine.txt").ok());
  ASSERT_TRUE(LeaveStaging(&files_, "/out").ok());
  EXPECT_FALSE(files_.Exists(root));
}

// A user's file got into a checkpoint as it was moved aside, and it could not go back.
TEST_F(CheckpointFilesTest, ASweepLeavesWhatNoJobWrote) {
  ASSERT_TRUE(Save(10, "job-1").ok());
  ASSERT_TRUE(Save(12, "job-1").ok());
  ASSERT_TRUE(Save(14, "job-1").ok());
  const std::string root = "/out/.staging/";
  const std::string replaced = root + "step-10.job-1.t1.e1.replaced",
                    dropped = root + "step-12.job-1.t1.e1", ours = root + "step-14.job-1.t1.e1";
  ASSERT_TRUE(files_.MakeDirs(root).ok());
  ASSERT_TRUE(files_.RenameDirectory("/out/checkpoint-10", replaced).ok());
  ASSERT_TRUE(files_.RenameDirectory("/out/checkpoint-12", dropped).ok());
  ASSERT_TRUE(files_.RenameDirectory("/out/checkpoint-14", ours).ok());
  ASSERT_TRUE(Save(10, "job-1", 2, 1).ok());
  for (const std::string& folder : {replaced, dropped}) {
    ASSERT_TRUE(files_.WriteDurably(folder + "/mine.txt", "a user's").ok());
  }
  ASSERT_TRUE(SweepStaging(&files_, "/out").ok());
  EXPECT_TRUE(files_.Exists(replaced + "/mine.txt"));
  EXPECT_TRUE(files_.Exists(dropped + "/mine.txt"));
  EXPECT_FALSE(files_.Exists(ours));
}

TEST_F(CheckpointFilesTest, AStagingDirectoryThatIsALinkIsNeitherSweptNorWrittenTo) {
  ASSERT_TRUE(files_.MakeDirs("/elsewhere/step-10.mine").ok());
  ASSERT_TRUE(files_.MakeDirs("/out").ok());
  files_.Link("/out/.staging", "/elsewhere");
  const absl::Status refused = SweepStaging(&files_, "/out");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("/out/.staging is a symbolic link"), std::string::npos);
  EXPECT_TRUE(files_.Exists("/elsewhere/step-10.mine"));
}

TEST_F(CheckpointFilesTest, ACommitWithoutTheDirectoryRenamesNothing) {
  ASSERT_TRUE(Save(10, "other").ok());
  const std::string staging = StagingDirectory("/out", {"job", 1, 1}, 10);
  ASSERT_TRUE(files_.MakeDirs(staging).ok());
  Manifest manifest{.job = "job", .term = 1, .epoch = 1};
  manifest.run.step = 10;
  const auto refuse = [](const auto&) { return absl::AbortedError("another owner"); };
  EXPECT_EQ(CommitCheckpoint(&files_, {"/out", manifest, "{}"}, refuse).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(VerifyCheckpoint(&files_, "/out/checkpoint-10")->job, "other");
}

// Invariant driver-12.
TEST_F(CheckpointFilesTest, WhatNoJobWroteStandsInTheWayOfACommit) {
  ASSERT_TRUE(files_.MakeDirs("/out/checkpoint-20").ok());
  ASSERT_TRUE(files_.WriteDurably("/out/checkpoint-20/optimizer.pt", "mine").ok());
  const absl::Status foreign = Save(20).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(foreign.message().find("/out/checkpoint-20/optimizer.pt"), absl::string_view::npos);
  EXPECT_EQ(*files_.Read("/out/checkpoint-20/optimizer.pt"), "mine");
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(files_.WriteDurably("/out/checkpoint-10/notes.txt", "mine").ok());
  EXPECT_EQ(Save(10, "other").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DropCheckpoint(&files_, "/out", {"job", 1, 1}, "/out/checkpoint-10").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*files_.Read("/out/checkpoint-10/notes.txt"), "mine");
  EXPECT_EQ(ReadManifest(&files_, "/out/checkpoint-10")->job, "job");
}

TEST_F(CheckpointFilesTest, ACommitSaysWhoseCheckpointItReplaces) {
  ASSERT_TRUE(Save(10, "other").ok());
  EXPECT_EQ(committed_.replaced_job, "");
  ASSERT_TRUE(Save(10).ok());
  EXPECT_EQ(committed_.replaced_job, "other");
  ASSERT_TRUE(Save(10, "job", 1, 2).ok());
  EXPECT_EQ(committed_.replaced_job, "");
}

// A job that trained on past its damaged checkpoint can save that step again, and nothing is lost.
TEST_F(CheckpointFilesTest, ADamagedCheckpointIsSetAside) {
  for (const char* aside : {"/out/checkpoint-10.damaged", "/out/checkpoint-10.damaged-2"}) {
    ASSERT_TRUE(Save(10, "other").ok());
    Flip(10);
    const std::string damaged = *files_.Read("/out/checkpoint-10/rank-0.safetensors");
    ASSERT_TRUE(Save(10).ok());
    EXPECT_NE(committed_.set_aside.find(aside), std::string::npos) << committed_.set_aside;
    EXPECT_EQ(*files_.Read(std::string(aside) + "/rank-0.safetensors"), damaged);
    EXPECT_EQ(VerifyCheckpoint(&files_, "/out/checkpoint-10")->job, "job");
  }
  EXPECT_EQ((*Find())->directory, "/out/checkpoint-10");
}

TEST_F(CheckpointFilesTest, ASupersededOneIsDeletedByWayOfStaging) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(DropCheckpoint(&files_, "/out", {"job", 1, 1}, "/out/checkpoint-10").ok());
  EXPECT_FALSE(files_.Exists("/out/checkpoint-10"));
  EXPECT_TRUE(files_.List("/out/.staging")->empty());
}

// checkpoint.extend.
class ExtendTest : public CheckpointFilesTest {
 protected:
  // A checkpoint of a recipe of 20 steps.
  absl::Status SaveShort(int64_t step, const std::string& stem = "stem") {
    stem_ = stem;
    total_steps_ = 20;
    return Save(step, "first", 1, ++epoch_, "short").status();
  }
  absl::StatusOr<std::optional<ResumePoint>> Extend(int64_t total_steps, bool extend = true,
                                                    const std::string& path = "") {
    query_ = {.job = "second",
              .output_dir = "/out",
              .recipe = {.hash = "long", .stem = "stem", .total_steps = total_steps},
              .extend = extend,
              .own_only = !path.empty()};
    if (!path.empty()) query_.explicit_starts = {{.directory = path}};
    return FindResumePoint(&files_, query_, &warnings_);
  }
  static void Says(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << what;
    EXPECT_NE(status.message().find(what), absl::string_view::npos) << status;
  }
  ResumeQuery query_;
  uint64_t epoch_ = 0;
};

TEST_F(ExtendTest, ALongerRecipeGoesOnFromTheNewestCheckpoint) {
  ASSERT_TRUE(SaveShort(10).ok());
  ASSERT_TRUE(SaveShort(20).ok());
  for (const char* path : {"", "/out/checkpoint-20"}) {
    const auto point = Extend(40, true, path);
    ASSERT_TRUE(point.ok() && point->has_value()) << point.status();
    EXPECT_EQ((*point)->manifest.run.step, 20);
    EXPECT_EQ((*point)->manifest.total_steps, 20);
    EXPECT_TRUE(Extends(**point, query_));
  }
}

TEST_F(ExtendTest, WithoutItBothLengthsAreNamedAndWhatToSet) {
  ASSERT_TRUE(SaveShort(20).ok());
  for (const char* path : {"", "/out/checkpoint-20"}) {
    const absl::Status status = Extend(40, false, path).status();
    Says(status,
         "its recipe has 20 steps and this job's 40; no other key that is compared before the data "
         "is read differs");
    Says(status, "Set checkpoint.extend: true to go on from step 20");
  }
}

TEST_F(ExtendTest, WhatIsFinishedOrOfAnotherRecipeIsNotExtended) {
  ASSERT_TRUE(SaveShort(20).ok());
  Says(Extend(20).status(), "has 20 finished steps and this job has 20 in all");
  ASSERT_TRUE(SaveShort(20, "other").ok());
  Says(Extend(40).status(), "checkpoint.extend allows only another number of steps");
  ASSERT_TRUE(SaveShort(20, "").ok());  // of a release that kept none
  Says(Extend(40).status(), "belongs to another recipe");
}

TEST_F(CheckpointFilesTest, ACheckpointThatAnotherJobReplacedIsNotTaken) {
  const KnownCheckpoint known{
      .directory = "/out/checkpoint-10", .digest = Save(10, "first")->digest, .job = "first"};
  ResumeQuery query{.job = "generate",
                    .output_dir = "/scratch",
                    .recipe = {.hash = "none"},
                    .own_only = true,
                    .any_recipe = true,
                    .explicit_starts = {known}};
  EXPECT_EQ((*FindResumePoint(&files_, query, &warnings_))->manifest.job, "first");
  EXPECT_EQ(*FirstIntact(&files_, {known}, &warnings_), 0u);
  ASSERT_TRUE(Save(10, "second").ok());
  for (const bool with_digest : {true, false}) {
    if (!with_digest) query.explicit_starts[0].digest.clear();
    const absl::Status replaced = FindResumePoint(&files_, query, &warnings_).status();
    EXPECT_EQ(replaced.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(replaced.message().find("job second replaced the checkpoint of job first"),
              absl::string_view::npos)
        << replaced;
  }
  EXPECT_EQ(FirstIntact(&files_, {known}, &warnings_).status().code(), absl::StatusCode::kDataLoss);
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

TEST(ManifestTest, SaysWhatJobItGoesOnFrom) {
  Manifest first{.job = "first"};
  first.run.step = 20;
  EXPECT_EQ(OriginOf(first, "first"), Origin());
  Manifest second{.job = "second", .origin = OriginOf(first, "second")};
  EXPECT_EQ(second.origin, (Origin{.job = "first", .step = 20}));
  const Manifest read = *ParseManifest(ToJson(second), "m");
  EXPECT_EQ(OriginOf(read, "second"), second.origin);
}

TEST(ManifestTest, SizesThatDoNotAddUpAreRefused) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{-1}, {std::numeric_limits<int64_t>::max(), 1}}) {
    Manifest manifest;
    for (const int64_t bytes : sizes) manifest.files.push_back({"f", bytes, ""});
    EXPECT_TRUE(absl::IsDataLoss(ParseManifest(ToJson(manifest), "m").status()));
  }
}

// A model that has diverged says NaN, and its checkpoint is one all the same.
TEST(ManifestTest, AnEvaluationThatIsNotFiniteIsReadBack) {
  Manifest manifest;
  manifest.run.evals = {{.step = 1, .loss = std::nan(""), .seconds = 0.5}};
  const auto read = ParseManifest(ToJson(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->run.evals.front().loss));
}

}  // namespace
}  // namespace coxswain::checkpoint
