// A controller that is killed and started again goes on with the gangs that it finds, in virtual
// time over fake workers, which keep their answers as real ones do.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/kept_answers.h"
#include "controller/driver/readoption/readoption.h"
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
  // A gang with a rank of each name, whose first `taken` answers are recorded.
  static std::optional<driver::Readoption> Found(const std::vector<std::string>& names,
                                                 uint64_t taken) {
    std::vector<gang::Rank> ranks;
    for (const std::string& name : names) {
      gang::Rank& rank = ranks.emplace_back();
      rank.target.id = "sim/" + name;
      rank.target.incarnation = name;
    }
    store::MemoryStore store;
    store::Batch batch;
    batch.plans = {{"plan", "bytes"}};
    batch.epochs = {
        {.job = "job", .epoch = 1, .plan_hash = "plan", .ranks = gang::RanksJson(ranks)}};
    batch.positions = {{"job", 1, taken, driver::ToldJson({.bytes = {3}})}};
    EXPECT_TRUE(store.Commit(batch).ok());
    v1::Job job;
    job.set_id("job");
    job.set_epoch(1);
    auto found = driver::Readoption::Find(&store, job, /*trains=*/false);
    EXPECT_TRUE(found.ok() && found->has_value()) << found.status();
    return *std::move(found);
  }
  static scheduler::Worker WorkerOf(const std::string& name) {
    scheduler::Worker worker;
    worker.target.id = "sim/" + name;
    worker.target.incarnation = name;
    v1::Fence& fence = *worker.hello.mutable_current();
    fence.set_job("job");
    fence.set_epoch(1);
    fence.set_plan_hash("plan");
    return worker;
  }
};

// Invariant gang-5.
TEST_F(ReadoptionTest, KilledAtAnyWriteOrMessageItRepeatsNoStep) {
  for (int effects = 0; effects < 90; ++effects) {
    KillAfter(effects, 1 + effects % 3, {.eval_steps = 3, .save_steps = 2});
  }
}

// Answers that end before as many tokens as they may have leave pieces unasked.
TEST_F(ReadoptionTest, KilledWhileItAnswersItRepeatsNoStep) {
  for (int effects = 0; effects < 60; ++effects) {
    KillAfter(effects, 1 + effects % 3, {.eval_steps = 3, .save_steps = 2}, {.answer_tokens = 64});
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

// Answers that are no longer kept cannot be asked for again: that is known before any is.
TEST_F(ReadoptionTest, ARankThatHasForgottenWhatIsNeededIsNamed) {
  auto found = Found({"a"}, /*taken=*/0);
  EXPECT_EQ(found->told().bytes, std::vector<size_t>{3});
  scheduler::Worker worker = WorkerOf("a");
  worker.hello.set_last_done_seq(kKeptAnswers);
  EXPECT_EQ(*found->Return(worker), 0);
  worker.hello.set_last_done_seq(kKeptAnswers + 1);
  EXPECT_NE(found->Return(worker).status().message().find("keeps the answers of the newest 256"),
            absl::string_view::npos);
}

// What ranks have behind the position is sent again in their order: the one that has most knows.
TEST_F(ReadoptionTest, TheRankThatHasMostNamesWhatIsSentAgain) {
  auto found = Found({"a", "b"}, /*taken=*/3);
  scheduler::Worker worker = WorkerOf("a");
  worker.hello.set_last_done_seq(4);
  worker.hello.set_last_queued_seq(5);
  for (const v1::CommandKind kind : {v1::COMMAND_KIND_EVAL, v1::COMMAND_KIND_TRAIN,
                                     v1::COMMAND_KIND_TRAIN, v1::COMMAND_KIND_TRAIN}) {
    worker.hello.add_queued(kind);
  }
  EXPECT_EQ(*found->Return(worker), 0);
  EXPECT_EQ(found->queued(), 5u);
  EXPECT_EQ(found->sent(), std::vector<v1::CommandKind>(2, v1::COMMAND_KIND_TRAIN));
  worker.target.id = "sim/b";
  worker.target.incarnation = "b";
  worker.hello.set_last_queued_seq(6);
  worker.hello.add_queued(v1::COMMAND_KIND_SNAPSHOT);
  EXPECT_EQ(*found->Return(worker), 1);
  EXPECT_EQ(found->sent(),
            (std::vector<v1::CommandKind>{v1::COMMAND_KIND_TRAIN, v1::COMMAND_KIND_TRAIN,
                                          v1::COMMAND_KIND_SNAPSHOT}));
  worker.hello.set_last_queued_seq(9);
  EXPECT_EQ(found->Return(worker).status().message(),
            "rank 1 (sim/b) has 9 commands and names the newest 5; needed are those after command "
            "3");
}

// What was drained is drained by the next controller, and saved.
class DrainReadoptionTest : public ReadoptionTest {
 protected:
  static driver::JobDriver& Driver(Simulation& sim, const std::string& id) {
    return **sim.jobs().Find(id);
  }
  static int64_t NewestCheckpoint(Simulation& sim, const std::string& id) {
    int64_t newest = 0;
    for (const v1::CheckpointInfo& info : sim.Job(id).checkpoints()) {
      newest = std::max(newest, info.step());
    }
    return newest;
  }
  // Killed when it has had so many effects since it was asked to drain. False: it died before that
  // was decided.
  static bool KillInDrain(Simulation& sim, const std::string& id, int effects,
                          const std::function<absl::Status()>& drain) {
    EXPECT_TRUE(RunToStep(sim, id, 4));
    sim.KillControllerAfter(effects, 700);
    return drain().ok();
  }
  static void ExpectSavedInFirstGang(Simulation& sim, const std::string& id) {
    EXPECT_EQ(ReasonOf(sim, id), "") << sim.history();
    EXPECT_EQ(sim.Job(id).epoch(), 1u);
    EXPECT_EQ(NewestCheckpoint(sim, id), sim.Job(id).progress().step()) << sim.history();
  }
};

TEST_F(DrainReadoptionTest, APauseLosesNoStepWheneverTheControllerDies) {
  for (int effects = 0; effects < 40; ++effects) {
    SCOPED_TRACE("killed after " + std::to_string(effects) + " effects");
    Simulation::Options options = Steps(100);
    options.settings.credits = 1 + effects % 3;
    options.lane_most_ms = 150;
    Simulation sim(options);
    const std::string id = sim.Submit({.eval_steps = 3, .save_steps = 3 + effects % 2 * 100});
    if (!KillInDrain(sim, id, effects, [&] { return Driver(sim, id).Pause(); })) continue;
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED, 60'000)) << sim.history();
    ExpectSavedInFirstGang(sim, id);
    if (sim.terms() == 1) return;  // so many it does not have in a drain
    ASSERT_TRUE(Driver(sim, id).Resume(0).ok());
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
    EXPECT_EQ(sim.store().AllSteps(id).size(), 12u);
    ExpectClean(sim);
  }
}

TEST_F(DrainReadoptionTest, ACancelWithACheckpointSavesIt) {
  for (int effects = 0; effects < 30; effects += 2) {
    SCOPED_TRACE("killed after " + std::to_string(effects) + " effects");
    Simulation sim(Steps(100));
    const std::string id = sim.Submit({.save_steps = 100});
    if (!KillInDrain(sim, id, effects, [&] { return Driver(sim, id).Cancel(true); })) continue;
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED, 60'000)) << sim.history();
    ExpectSavedInFirstGang(sim, id);
    EXPECT_EQ(CountOf(sim, id, "Warning"), 0);
    ExpectClean(sim);
  }
}

TEST_F(DrainReadoptionTest, APlainCancelWaitsForNoGang) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  ASSERT_TRUE(Driver(sim, id).Cancel().ok());
  sim.CrashController();
  sim.StartController();
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 20'000));
  ExpectClean(sim);
}

TEST_F(DrainReadoptionTest, AJobThatIsDrainingShowsWhomItAwaitsAndMayBeCancelled) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  ASSERT_TRUE(Driver(sim, id).Pause().ok());
  sim.workers().Partition(1, true);
  Restart(sim);
  sim.RunFor(3000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  EXPECT_EQ(sim.Job(id).readoption().returned(), 1);
  ASSERT_TRUE(Driver(sim, id).Cancel().ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(sim.Job(id).has_readoption());
  sim.workers().Partition(1, false);
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 20'000));
  ExpectClean(sim);
}

TEST_F(DrainReadoptionTest, OneWhoseGangDoesNotComeBackEndsWhereItWasGoing) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  ASSERT_TRUE(Driver(sim, id).Cancel(/*with_checkpoint=*/true).ok());
  sim.CrashController();
  sim.RestartWorker(1, 100);
  sim.RunFor(500);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED, 10'000)) << sim.history();
  EXPECT_NE(ReasonOf(sim, id).find("is another process"), std::string::npos);
  ASSERT_EQ(CountOf(sim, id, "Warning"), 1);
  EXPECT_NE(sim.Events(id, "Warning")[0].message().find("cancelled without a checkpoint of step"),
            std::string::npos);
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 20'000));
  ExpectClean(sim);
}

TEST_F(DrainReadoptionTest, WhoIsPreemptedStillGivesItsWorkersAway) {
  for (int effects = 0; effects < 20; ++effects) {
    SCOPED_TRACE("killed after " + std::to_string(effects) + " effects");
    Simulation sim(SlowSteps());
    const std::string id = sim.Submit({.save_steps = 100});
    ASSERT_TRUE(RunToStep(sim, id, 4));
    const std::string urgent = sim.Submit({.name = "urgent", .priority = 1});
    ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "Preempted") == 1; }, 20'000));
    sim.KillControllerAfter(effects, 700);
    ASSERT_TRUE(sim.RunUntilState(urgent, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
    EXPECT_EQ(CountOf(sim, id, "GangFormed"), 2) << sim.history();
    ExpectClean(sim);
  }
}

TEST_F(DrainReadoptionTest, AControllerThatHadNoTimeToStopLosesNoStep) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.StopController(/*grace_ms=*/100, /*down_ms=*/1000);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.terms() == 2; }, 20'000)) << sim.history();
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
  ExpectClean(sim);
}

TEST_F(DrainReadoptionTest, AWorkerThatLeavesIsAwaitedForItsCheckpoint) {
  Simulation sim(SlowSteps(3));
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().Drain(0);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).state() == v1::JOB_STATE_DRAINING; }, 5000));
  Restart(sim);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(ReasonOf(sim, id), "");
  EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
  ExpectClean(sim);
}

// Its ranks keep their answers; what was told of them is not told again.
TEST_F(ReadoptionTest, AJobThatGeneratesAnswersOnceWheneverTheControllerDies) {
  for (int effects = 0; effects < 60; ++effects) {
    SCOPED_TRACE("killed after " + std::to_string(effects) + " effects");
    Simulation::Options options = Steps(100);
    options.settings.credits = 1 + effects % 3;
    Simulation sim(options);
    const std::string id = sim.Submit({.steps = 0, .answer_tokens = 50 + effects % 4 * 8});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
    sim.KillControllerAfter(effects, 700);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(sim.Job(id).epoch(), 1u) << sim.history();
    EXPECT_EQ(ReasonOf(sim, id), "");
    std::map<int32_t, std::string> pieces;
    for (const v1::JobEvent& event : sim.Events(id, "AnswerWritten")) {
      pieces[event.answer_written().prompt()] += event.answer_written().piece();
    }
    const auto answers = sim.Events(id, "PromptAnswered");
    ASSERT_EQ(answers.size(), 6u);
    for (const v1::JobEvent& event : answers) {
      EXPECT_EQ(pieces[event.prompt_answered().prompt()], event.prompt_answered().answer());
    }
    ExpectClean(sim);
  }
}

}  // namespace
}  // namespace coxswain::sim
