// The export of a job alone: from which checkpoint, when again, and what of a staged one is kept.
#include "controller/driver/job/job_export.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class JobExportTest : public support::JobPartTest {
 protected:
  JobExportTest() {
    store::Batch batch;
    batch.plans.push_back({"plan", "bytes of the plan"});
    EXPECT_TRUE(store_.Commit(batch).ok());
    row_.job.set_plan_hash("plan");
    lane_work_.export_artifacts = [this](const ExportInput& input) -> absl::StatusOr<ExportedTo> {
      inputs_.push_back(input);
      ExportedTo to;
      to.directory = "/out/adapter";
      return to;
    };
    lane_work_.stage_export = [this](const ExportInput& input) -> absl::StatusOr<StagedExport> {
      staged_from_.push_back(input.checkpoint_dir);
      return Staged();
    };
  }

  static StagedExport Staged() {
    StagedExport staged;
    staged.folders.emplace_back().directory = "/out/.staging/adapter";
    return staged;
  }
  void Damage(int64_t step) {
    const std::string path = checkpoint::CheckpointDirectory("/out", step) + "/rank-0.shard";
    ASSERT_TRUE(files_.WriteDurably(path, "other bytes").ok());
  }

  std::vector<ExportInput> inputs_;       // of what was put in place
  std::vector<std::string> staged_from_;  // directories of checkpoints
};

TEST_F(JobExportTest, TheNewestCheckpointIsExportedWithThePlanOfTheJob) {
  Save(2);
  Save(4);
  JobExport exported(job());
  exported.Start();
  RunFor(1);
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"exported"});
  EXPECT_EQ(heard_.exported().step, 4);
  EXPECT_EQ(heard_.exported().result->directory, "/out/adapter");
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(inputs_[0].checkpoint_dir, "/out/checkpoint-4");
  EXPECT_EQ(inputs_[0].plan_bytes, "bytes of the plan");
  EXPECT_EQ(inputs_[0].unverified, "export.verify is false");
}

// Invariant driver-7.
TEST_F(JobExportTest, ADamagedCheckpointIsPassedOverWithAWarning) {
  Save(2);
  Save(4);
  Damage(4);
  JobExport exported(job());
  exported.Start();
  RunFor(1);
  EXPECT_EQ(heard_.exported().step, 2);
  ASSERT_EQ(Told("Warning").size(), 1u);
  EXPECT_NE(Told("Warning")[0].find("/out/checkpoint-4"), std::string::npos) << Told("Warning")[0];
}

TEST_F(JobExportTest, WaitingMendsNoDamagedCheckpoints) {
  Save(2);
  Damage(2);
  JobExport exported(job());
  exported.Start();
  RunFor(60'000);
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"exported"});
  EXPECT_TRUE(absl::IsDataLoss(heard_.exported().result.status()));
  EXPECT_TRUE(heard_.exported().damaged);
  EXPECT_TRUE(inputs_.empty());
}

// Invariant driver-10.
TEST_F(JobExportTest, AnotherOwnerOfTheDirectoryIsWaitedForAndToldOnce) {
  Save(2);
  OutputClaim other(&files_, "/out", OwnerHere(store_.Id(), 1, "other"));
  ASSERT_TRUE(other.Take().ok());
  JobExport exported(job());
  exported.Start();
  RunFor(30'000);
  EXPECT_TRUE(heard_.told().empty());
  EXPECT_TRUE(inputs_.empty());
  EXPECT_EQ(Told("Warning").size(), 1u);
  other.Release();
  RunFor(5'000);
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"exported"});
  EXPECT_EQ(inputs_.size(), 1u);
}

TEST_F(JobExportTest, WhatWasStagedAndKeptIsPutInPlaceOnce) {
  Save(4);
  spec_.export_verify = true;
  JobExport exported(job());
  std::string from;
  exported.Stage([&](const StagedAttempt& staged) { from = staged.checkpoint_dir; });
  RunFor(1);
  EXPECT_EQ(from, "/out/checkpoint-4");
  exported.Keep(Staged());
  exported.Start();
  RunFor(1);
  exported.Start();
  RunFor(1);
  ASSERT_EQ(inputs_.size(), 2u);
  ASSERT_TRUE(inputs_[0].staged.has_value());
  EXPECT_EQ(inputs_[0].staged->folders[0].directory, "/out/.staging/adapter");
  EXPECT_FALSE(inputs_[1].staged.has_value());
}

// Invariant driver-15.
TEST_F(JobExportTest, WhatWasStagedForAGangThatIsGoneIsWrittenAnewAndNotVerified) {
  Save(4);
  spec_.export_verify = true;
  JobExport exported(job());
  exported.Stage([&](const StagedAttempt&) { exported.Keep(Staged()); });
  RunFor(1);
  exported.Stop();
  exported.Start();
  RunFor(1);
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_FALSE(inputs_[0].staged.has_value());
  EXPECT_EQ(inputs_[0].unverified, "it was written when its gang had gone");
}

TEST_F(JobExportTest, AStopTellsNobody) {
  Save(2);
  JobExport exported(job());
  exported.Start();
  exported.Stop();
  RunFor(60'000);
  EXPECT_TRUE(heard_.told().empty());
}

}  // namespace
}  // namespace coxswain::driver
