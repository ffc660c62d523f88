// What a job makes of its checkpoints while it runs: damage, delay, room.
#include <gtest/gtest.h>

#include "controller/driver/output/job_checkpoints.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobCheckpointsTest : public support::JobTest {
 protected:
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil(
        [&] {
          return sim.Job(id).state() == v1::JOB_STATE_RUNNING &&
                 sim.Job(id).progress().step() >= step;
        },
        600'000);
  }
  // Every plan says that a checkpoint takes so many bytes.
  static void PlanCheckpoints(Simulation& sim, int64_t bytes) {
    sim.deps().lane_work->plan = [plan = sim.deps().lane_work->plan,
                                  bytes](const driver::PlanInput& input) {
      auto made = plan(input);
      if (made.ok()) made->checkpoint_bytes = bytes;
      return made;
    };
  }
  // Runs to RECOVERING with a setback of `kind`, and returns its message.
  static std::string SetbackOf(Simulation& sim, const std::string& id, v1::ErrorKind kind) {
    EXPECT_TRUE(sim.RunUntil(
        [&] {
          return sim.Job(id).state() == v1::JOB_STATE_RECOVERING &&
                 sim.Job(id).setback().kind() == kind;
        },
        600'000))
        << sim.Job(id).ShortDebugString();
    return sim.Job(id).setback().message();
  }
};

// Invariant driver-7, where a rank finds the damage.

TEST_F(JobCheckpointsTest, ABlockThatARankFindsDamagedLeadsToTheCheckpointBefore) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(RunToStep(sim, id, 8));
  const std::string path = "/out/job/checkpoint-6/rank-0.shard";
  std::string content = *sim.files().Read(path);
  content.back() ^= 1;
  ASSERT_TRUE(sim.files().WriteDurably(path, content).ok());
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Events(id, "Resuming").size() == 2; }, 4'000));
  EXPECT_NE(sim.Events(id, "Resuming")[0].message().find("checkpoint-6"), std::string::npos);
  EXPECT_NE(sim.Events(id, "Resuming")[1].message().find("checkpoint-3"), std::string::npos);
  const auto warned = sim.Events(id, "Warning");
  ASSERT_EQ(warned.size(), 1u);
  EXPECT_NE(warned[0].message().find("passed over: " + path + ": block 0 of 1"), std::string::npos)
      << warned[0].message();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 1);  // by the worker alone
  ExpectClean(sim);
}

// Once it is written again it is as good as any.
TEST_F(JobCheckpointsTest, ADamagedCheckpointThatIsReplacedIsResumedFrom) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(RunToStep(sim, id, 7));
  const std::string path = "/out/job/checkpoint-6/rank-0.shard";
  std::string content = *sim.files().Read(path);
  content.back() ^= 1;
  ASSERT_TRUE(sim.files().WriteDurably(path, content).ok());
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Events(id, "Resuming").size() == 2; }, 4'000));
  ASSERT_TRUE(RunToStep(sim, id, 8));
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Events(id, "Resuming").size() == 3; }, 4'000));
  EXPECT_NE(sim.Events(id, "Resuming")[2].message().find("checkpoint-6"), std::string::npos);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

// A checkpoint is written beside the steps.

TEST_F(JobCheckpointsTest, ASaveThatIsStillWrittenDelaysTheNextWithAWarning) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 2});
  ASSERT_TRUE(RunToStep(sim, id, 1));
  sim.workers().SlowSave(0, 2'600, absl::OkStatus());  // five steps
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "Warning") == 1; }, 60'000));
  const std::string message = sim.Events(id, "Warning")[0].message();
  EXPECT_NE(message.find("the checkpoint of step 4 is delayed: that of step 2"), std::string::npos)
      << message;
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "CheckpointCommitted") == 1; }, 60'000));
  EXPECT_GE(sim.Job(id).progress().step(), 5);  // training went on
  sim.workers().SlowSave(0, 0, absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  std::vector<int64_t> steps;
  for (const auto& event : sim.Events(id, "CheckpointCommitted")) {
    steps.push_back(event.checkpoint_committed().step());
  }
  ASSERT_GE(steps.size(), 3u);
  EXPECT_EQ(steps[0], 2);
  EXPECT_GE(steps[1], 5);  // owed since 4, not lost
  EXPECT_LE(steps[1], 8);
  EXPECT_EQ(steps.back(), 12);
  EXPECT_EQ(CountOf(sim, id, "Warning"), 1);
  ExpectClean(sim);
}

TEST_F(JobCheckpointsTest, ADelayOfLessThanASecondIsNoWarning) {
  Simulation sim(Steps(50));
  const std::string id = sim.Submit({.save_steps = 2});
  ASSERT_TRUE(RunToStep(sim, id, 1));
  sim.workers().SlowSave(0, 700, absl::OkStatus());  // longer than the two steps between saves
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_LT(CountOf(sim, id, "CheckpointCommitted"), 6);  // some were delayed
  EXPECT_EQ(CountOf(sim, id, "Warning"), 0);
  ExpectClean(sim);
}

TEST_F(JobCheckpointsTest, CommandsSentAheadDelayNoCheckpoint) {
  Simulation::Options options = SlowSteps();
  options.settings = driver::Settings();
  Simulation sim(options);
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  std::vector<int64_t> steps;
  for (const auto& event : sim.Events(id, "CheckpointCommitted")) {
    steps.push_back(event.checkpoint_committed().step());
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 6, 9, 12}));
  EXPECT_EQ(CountOf(sim, id, "Warning"), 0);
  ExpectClean(sim);
}

// Room for checkpoints.

TEST_F(JobCheckpointsTest, AJobWithoutRoomForACheckpointWaitsWithBothNumbers) {
  Simulation sim(SlowSteps());
  PlanCheckpoints(sim, 5000);
  sim.files().SetFreeBytes(4000);
  const std::string id = sim.Submit({});
  const std::string message = SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  for (const char* part : {"/out/job", "5000 bytes", "4000 bytes"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  sim.files().SetFreeBytes(1 << 20);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobCheckpointsTest, ASaveWithoutRoomCostsThatCheckpoint) {
  Simulation sim(SlowSteps());
  PlanCheckpoints(sim, 5000);
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(RunToStep(sim, id, 1));
  sim.files().SetFreeBytes(4000);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "CheckpointFailed") == 1; }, 60'000));
  const std::string message = sim.Events(id, "CheckpointFailed")[0].message();
  for (const char* part : {"step 3", "5000 bytes", "4000 bytes"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  sim.files().SetFreeBytes(1 << 20);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  ExpectClean(sim);
}

TEST_F(JobCheckpointsTest, ATestedSaveThatFailsEndsTheJobWithTheReason) {
  Simulation sim(SlowSteps());
  sim.workers().SlowSave(0, 0, absl::ResourceExhaustedError("disk full"));
  const std::string id = sim.Submit({.extra_checkpoint = ", test_save: true"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 60'000));
  const std::string message = sim.Job(id).error().message();
  for (const char* part : {"checkpoint.test_save", "step 1", "disk full"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_LE(sim.Job(id).progress().step(), 3);
}

TEST_F(JobCheckpointsTest, ATestedSaveThatIsReadBackIsACheckpoint) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100, .extra_checkpoint = ", test_save: true"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "CheckpointCommitted"), 2);
  ExpectClean(sim);
}

// The part alone.
using JobCheckpointsPartTest = support::JobPartTest;

TEST_F(JobCheckpointsPartTest, ADelayIsToldWhenItTakesMoreThanASecond) {
  spec_.save_steps = 5;
  driver::JobCheckpoints checkpoints(job());
  checkpoints.Delayed(10);
  RunFor(999);
  EXPECT_TRUE(Told("Warning").empty());
  RunFor(1);
  ASSERT_EQ(Told("Warning").size(), 1u);
  EXPECT_NE(Told("Warning")[0].find("the checkpoint of step 10 is delayed"), std::string::npos);
  EXPECT_NE(Told("Warning")[0].find("checkpoint.save_steps (5)"), std::string::npos);
  checkpoints.Delayed(15);
  checkpoints.Stop();
  RunFor(2000);
  EXPECT_EQ(Told("Warning").size(), 1u) << "its gang has gone";
}

// Invariant driver-7.
TEST_F(JobCheckpointsPartTest, ACheckpointThatAGangBeginsFromBecomesTheJobsOnce) {
  Save(4);
  row_.job.clear_checkpoints();  // the row of it is lost
  const checkpoint::Manifest manifest = *checkpoint::ReadManifest(&files_, "/out/checkpoint-4");
  driver::JobCheckpoints checkpoints(job());
  checkpoints.Adopt(manifest, "/out/checkpoint-4");
  checkpoints.Adopt(manifest, "/out/checkpoint-4");
  ASSERT_EQ(job().record.job().checkpoints_size(), 1);
  EXPECT_EQ(job().record.job().checkpoints(0).digest(), manifest.digest);
  ASSERT_TRUE(journal_.Flush().ok());
  EXPECT_EQ(store_.Checkpoints("job")->size(), 1u);
}

}  // namespace
}  // namespace coxswain::sim
