// A controller that is killed and started again goes on with the gangs that it finds, in virtual
// time over fake workers, which keep their answers as real ones do.
#include <gtest/gtest.h>

#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class ReadoptionTest : public support::JobTest {
 protected:
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() >= step; }, 600'000);
  }
  static void Restart(Simulation& sim, int64_t down_ms = 1000) {
    sim.CrashController();
    sim.RunFor(down_ms);
    sim.StartController();
  }
  static std::string ReasonOf(Simulation& sim, const std::string& id) {
    const auto events = sim.Events(id, "ReadoptionFailed");
    return events.empty() ? "" : events.front().readoption_failed().reason();
  }
  // Killed when it has had so many effects since its job runs, by an evaluation, a checkpoint and
  // an early stop that may be due then. What the job was told is the same in the end.
  static void KillAfter(int effects, int credits, const JobShape& shape, SyntheticShape data = {}) {
    SCOPED_TRACE("killed after " + std::to_string(effects) + " effects, " +
                 std::to_string(credits) + " credits");
    Simulation::Options options = Steps(100);
    options.shape = data;
    options.settings.credits = credits;
    options.lane_most_ms = 150;
    Simulation sim(options);
    const std::string id = sim.Submit(shape);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
    sim.KillControllerAfter(effects, 700);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
    EXPECT_EQ(ReasonOf(sim, id), "");
    const int64_t steps = sim.Job(id).progress().step();
    EXPECT_EQ(CountOf(sim, id, "StepDone"), steps);
    EXPECT_EQ(sim.store().AllSteps(id).size(), static_cast<size_t>(steps));
    ExpectClean(sim);
  }
};

// Invariant gang-5.
TEST_F(ReadoptionTest, KilledAtAnyWriteOrMessageItRepeatsNoStep) {
  for (int effects = 0; effects < 90; ++effects) {
    KillAfter(effects, 1 + effects % 3, {.eval_steps = 3, .save_steps = 2});
  }
}

TEST_F(ReadoptionTest, EarlyStoppingEndsAtTheSameEvaluation) {
  const JobShape shape{.eval_steps = 1, .extra_eval = ", early_stopping_patience: 2"};
  Simulation undisturbed(Steps(100));
  const std::string id = undisturbed.Submit(shape);
  ASSERT_TRUE(undisturbed.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  for (int effects = 3; effects < 50; effects += 3) {
    Simulation sim(Steps(100));
    const std::string again = sim.Submit(shape);
    ASSERT_TRUE(sim.RunUntilState(again, v1::JOB_STATE_RUNNING));
    sim.KillControllerAfter(effects, 700);
    ASSERT_TRUE(sim.RunUntilState(again, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(sim.rules().steps_trained_again(again), 0) << sim.history();
    EXPECT_EQ(sim.Job(again).progress().step(), undisturbed.Job(id).progress().step());
    EXPECT_EQ(sim.Job(again).progress().best_step(), undisturbed.Job(id).progress().best_step());
    EXPECT_EQ(CountOf(sim, again, "EvalDone"), CountOf(undisturbed, id, "EvalDone"));
    ExpectClean(sim);
  }
}

TEST_F(ReadoptionTest, SaysWhereTheGangGoesOnAndCountsNoRestart) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.CrashController();
  sim.RunFor(1000);
  sim.StartController();
  EXPECT_EQ(sim.Job(id).readoption().ranks(), 2);
  EXPECT_EQ(sim.Job(id).readoption().epoch(), 1u);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING, 20'000));
  EXPECT_FALSE(sim.Job(id).has_readoption());
  const auto events = sim.Events(id, "GangReadopted");
  ASSERT_EQ(events.size(), 1u);
  const v1::GangReadopted& readopted = events[0].gang_readopted();
  EXPECT_EQ(readopted.epoch(), 1u);
  EXPECT_EQ(readopted.workers_size(), 2);
  EXPECT_GE(readopted.step(), 4);  // the newest may not have been recorded
  EXPECT_GE(readopted.queued_seq(), readopted.last_seq());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(CountOf(sim, id, "GangFormed"), 1);
  ExpectClean(sim);
}

// A checkpoint that was being written is written again, for its ranks still hold the snapshot.
TEST_F(ReadoptionTest, ACheckpointThatWasBeingWrittenIsCommitted) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 4});
  sim.workers().SlowSave(1, 3000, absl::OkStatus());
  ASSERT_TRUE(RunToStep(sim, id, 5));
  ASSERT_EQ(CountOf(sim, id, "CheckpointCommitted"), 0);
  Restart(sim);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(sim.Events(id, "CheckpointCommitted")[0].checkpoint_committed().step(), 4);
  ExpectClean(sim);
}

TEST_F(ReadoptionTest, AControllerThatDiesAgainInItsWaitTriesAgain) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().Partition(1, true);
  Restart(sim);
  sim.RunFor(3000);
  EXPECT_EQ(sim.Job(id).readoption().returned(), 1);
  sim.CrashController();
  sim.workers().Partition(1, false);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(sim.rules().steps_trained_again(id), 0);
  ExpectClean(sim);
}

// Invariant gang-6.
TEST_F(ReadoptionTest, ARankThatWasReplacedMeanwhileIsNamedAtOnce) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.CrashController();
  sim.RestartWorker(1, 100);
  sim.RunFor(500);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntil([&] { return !ReasonOf(sim, id).empty(); }, 3000));
  EXPECT_NE(ReasonOf(sim, id).find("rank 1 (sim/1) is another process"), std::string::npos)
      << ReasonOf(sim, id);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  ExpectClean(sim);
}

TEST_F(ReadoptionTest, ARankThatDoesNotComeBackIsWaitedForSoLong) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().Partition(1, true);
  Restart(sim);
  sim.RunFor(19'000);
  EXPECT_EQ(ReasonOf(sim, id), "");
  sim.RunFor(1500);
  EXPECT_EQ(ReasonOf(sim, id),
            "rank 1 (sim/1) did not register within 20000 ms of the controller's start");
  EXPECT_FALSE(sim.Job(id).has_readoption());
  sim.workers().Partition(1, false);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  ExpectClean(sim);
}

TEST_F(ReadoptionTest, AGangThatIsAwaitedIsLetGoByAPause) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().Partition(1, true);
  Restart(sim);
  sim.RunFor(3000);
  ASSERT_TRUE(sim.Job(id).has_readoption());
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  sim.workers().Partition(1, false);
  EXPECT_FALSE(sim.Job(id).has_readoption());
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 20'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  ExpectClean(sim);
}

TEST_F(ReadoptionTest, AWorkerThatLeavesMeanwhileIsNotWaitedFor) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().Partition(1, true);
  Restart(sim);
  sim.RunFor(3000);
  sim.workers().Drain(0);
  ASSERT_TRUE(sim.RunUntil([&] { return !ReasonOf(sim, id).empty(); }, 3000));
  EXPECT_NE(ReasonOf(sim, id).find("is leaving"), std::string::npos) << ReasonOf(sim, id);
}

// What a rank has done is never less than what is recorded.
TEST_F(ReadoptionTest, AGangOfWhichTheStoreKnowsNoPositionFormsAnew) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.CrashController();
  store::Batch batch;
  batch.positions = {{id, 1, 0, ""}};
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(CountOf(sim, id, "ReadoptionFailed"), 0);
  ExpectClean(sim);
}

TEST_F(ReadoptionTest, APositionThatCannotBeReadIsNamed) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.CrashController();
  store::Batch batch;
  batch.positions = {{id, 1, 9, "{"}};
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_NE(ReasonOf(sim, id).find("cannot be read"), std::string::npos);
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  ExpectClean(sim);
}

}  // namespace
}  // namespace coxswain::sim
