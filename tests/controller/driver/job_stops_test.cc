// How a gang is stopped at a step boundary with a checkpoint, whoever asks for it.
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobStopsTest : public support::JobTest {
 protected:
  static driver::JobDriver& Driver(Simulation& sim, const std::string& id) {
    return **sim.jobs().Find(id);
  }
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() >= step; }, 600'000);
  }
  static std::string WarningsOf(Simulation& sim, const std::string& id) {
    std::string text;
    for (const v1::JobEvent& event : sim.Events(id, "Warning")) text += event.message() + "\n";
    return text;
  }
  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static int64_t NewestCheckpoint(Simulation& sim, const std::string& id) {
    int64_t newest = 0;
    for (const v1::CheckpointInfo& info : sim.Job(id).checkpoints()) {
      newest = std::max(newest, info.step());
    }
    return newest;
  }
  // Every step was trained, each once.
  static void ExpectEachStepOnce(Simulation& sim, const std::string& id, int64_t steps) {
    std::multiset<int64_t> trained, all;
    for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
      trained.insert(event.step_done().step());
    }
    for (int64_t step = 0; step < steps; ++step) all.insert(step);
    EXPECT_EQ(trained, all);
  }
};

TEST_F(JobStopsTest, ACancelWithCheckpointSavesTheStepAtWhichItStops) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  ASSERT_TRUE(Driver(sim, id).Cancel(/*with_checkpoint=*/true).ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  const int64_t stopped_at = sim.Job(id).progress().step();
  EXPECT_LE(stopped_at, 4 + 2);  // at most the outstanding credits
  EXPECT_EQ(NewestCheckpoint(sim, id), stopped_at);
  EXPECT_EQ(WarningsOf(sim, id), "");
  const std::string next = sim.Submit({.name = "next", .resume = id});
  ASSERT_TRUE(sim.RunUntilState(next, v1::JOB_STATE_SUCCEEDED)) << sim.Job(next).DebugString();
  ASSERT_EQ(CountOf(sim, next, "Resuming"), 1);
  EXPECT_EQ(sim.Events(next, "Resuming")[0].resuming().step(), stopped_at);
  EXPECT_EQ(CountOf(sim, next, "StepDone"), 12 - stopped_at);
  ExpectClean(sim);
}

TEST_F(JobStopsTest, ACancelWithCheckpointOfAJobWithoutAGangSaysThatThereIsNothingToSave) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.workers = 3});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_READY));
  ASSERT_TRUE(Driver(sim, id).Cancel(/*with_checkpoint=*/true).ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(Has(WarningsOf(sim, id), "nothing to save: no step is done; it has no checkpoint"))
      << WarningsOf(sim, id);

  const std::string paused = sim.Submit({.name = "paused", .save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, paused, 4));
  ASSERT_TRUE(Driver(sim, paused).Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(paused, v1::JOB_STATE_PAUSED));
  ASSERT_TRUE(Driver(sim, paused).Cancel(/*with_checkpoint=*/true).ok());
  EXPECT_EQ(sim.Job(paused).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(Has(WarningsOf(sim, paused), "no gang was running; its newest checkpoint is of step"))
      << WarningsOf(sim, paused);
  ExpectClean(sim);
}

TEST_F(JobStopsTest, ACancelWhoseSaveFailsSaysSoAndCancelsAllTheSame) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(sim.RunUntil([&] { return NewestCheckpoint(sim, id) == 3; }, 600'000));
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  ASSERT_TRUE(Driver(sim, id).Cancel(/*with_checkpoint=*/true).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED, 120'000));
  ASSERT_EQ(CountOf(sim, id, "CheckpointFailed"), 1);
  EXPECT_TRUE(Has(sim.Events(id, "CheckpointFailed")[0].message(), "cancelled all the same"));
  EXPECT_TRUE(Has(WarningsOf(sim, id), "cancelled without a checkpoint of step"))
      << WarningsOf(sim, id);
  EXPECT_TRUE(Has(WarningsOf(sim, id), "its newest checkpoint is of step 3"))
      << WarningsOf(sim, id);
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 30'000));
}

TEST_F(JobStopsTest, ACancelWhoseGangFailsMeanwhileSaysSoAndCancelsAllTheSame) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().Hang(1);
  ASSERT_TRUE(Driver(sim, id).Cancel(/*with_checkpoint=*/true).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED, 120'000));
  EXPECT_TRUE(Has(WarningsOf(sim, id), "cancelled without a checkpoint of step"))
      << WarningsOf(sim, id);
}

TEST_F(JobStopsTest, AStoppedControllerLosesNoStepAndTheJobKeepsItsPlace) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  const std::string urgent = sim.Submit({.name = "urgent", .workers = 1});
  sim.StopController(/*grace_ms=*/30'000, /*down_ms=*/1000);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.terms() == 2; }, 20'000)) << sim.history();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  ExpectEachStepOnce(sim, id, 12);
  ASSERT_TRUE(sim.RunUntilState(urgent, v1::JOB_STATE_SUCCEEDED));
  EXPECT_GT(sim.Job(urgent).started_unix_ms(), sim.Job(id).finished_unix_ms() - 1);
  ExpectClean(sim);
}

TEST_F(JobStopsTest, AControllerThatStopsAdmitsNoJobAndDrainsOneThatFormsMeanwhile) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FORMING));
  bool at_rest = false;
  sim.jobs().Stop([&] { at_rest = true; });
  const std::string late = sim.Submit({.name = "late", .workers = 1});
  ASSERT_TRUE(sim.RunUntil([&] { return at_rest; }, 60'000));
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  EXPECT_EQ(sim.Job(id).progress().step(), NewestCheckpoint(sim, id));
  EXPECT_EQ(sim.Job(late).state(), v1::JOB_STATE_READY);
}

TEST_F(JobStopsTest, AJobThatHasStoppedWithItsControllerCanBeCancelled) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  bool at_rest = false;
  sim.jobs().Stop([&] { at_rest = true; });
  ASSERT_TRUE(sim.RunUntil([&] { return at_rest; }, 60'000));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(Driver(sim, id).Cancel().ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
}

// What takes longer than the grace period costs the steps since the last checkpoint, not the job.
TEST_F(JobStopsTest, ADrainThatOutlastsTheGraceOfItsControllerIsReplayed) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().Hang(1);
  sim.StopController(/*grace_ms=*/1000, /*down_ms=*/1000);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.terms() == 2; }, 20'000));
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

}  // namespace
}  // namespace coxswain::sim
