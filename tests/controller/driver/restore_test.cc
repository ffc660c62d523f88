// A controller whose store was restored from a backup, or lost, among workers that have seen later
// terms: in virtual time over fake workers with the real fence.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/operations.h"
#include "controller/scheduler/registry.h"
#include "tests/sim/controller.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class RestoreTest : public support::JobTest {
 protected:
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() >= step; }, 600'000);
  }
  static void Restart(Simulation& sim) {
    sim.CrashController();
    sim.RunFor(1000);
    sim.StartController();
  }
  static void RestoreAndStart(Simulation& sim, const store::MemoryStore& backup) {
    sim.CrashController();
    sim.RestoreStore(backup);
    sim.RunFor(1000);
    sim.StartController();
  }
  static v1::ListWorkersResponse Workers(Simulation& sim) {
    api::Context context;
    context.deps = sim.deps();
    v1::ListWorkersResponse workers;
    api::ListWorkers(
        context, {}, {.role = access::Role::kOperator},
        [&](absl::StatusOr<v1::ListWorkersResponse> response) { workers = *std::move(response); });
    return workers;
  }
  static std::string RefusalOf(Simulation& sim, const std::string& worker) {
    const v1::ListWorkersResponse workers = Workers(sim);
    for (const v1::WorkerInfo& info : workers.workers()) {
      if (info.id() == worker && info.state() == "REFUSED") return info.cordoned();
    }
    return "";
  }
};

// Invariants driver-1 and scheduler-12. The workers have trained under terms that the restored
// store never gave.
TEST_F(RestoreTest, AJobGoesOnAmongWorkersThatHaveSeenLaterTerms) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.steps = 40, .save_steps = 2});
  ASSERT_TRUE(RunToStep(sim, id, 3));
  const store::MemoryStore backup = sim.store();
  for (int start = 0; start < 3; ++start) Restart(sim);
  ASSERT_TRUE(RunToStep(sim, id, 9));
  const uint64_t seen = sim.registry().term();
  RestoreAndStart(sim, backup);
  EXPECT_LE(sim.registry().term(), seen);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.registry().term() > seen; }, 20'000));
  EXPECT_EQ(*store::MemoryStore(sim.store()).NextTerm(0), sim.registry().term() + 1);  // durable
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
  ExpectClean(sim);
}

// Ranks hold the newest snapshot alone, and name the order of those that the backup does not know.
TEST_F(RestoreTest, AJobGoesOnBehindCheckpointsThatTheBackupDoesNotKnow) {
  for (const auto& [backup_step, save_ms] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 150}, {1, 400}, {5, 1}, {5, 150}}) {
    SCOPED_TRACE(absl::StrCat("backup at step ", backup_step, ", saves of ", save_ms, " ms"));
    Simulation::Options options = SlowSteps();
    options.shape.answer_tokens = 64;  // asked for in pieces; answers end after 10 and 20
    Simulation sim(options);
    for (int slot = 0; slot < 2; ++slot) sim.workers().SlowSave(slot, save_ms, absl::OkStatus());
    const std::string id = sim.Submit({.steps = 40, .eval_steps = 7, .save_steps = 2});
    ASSERT_TRUE(RunToStep(sim, id, backup_step));
    const store::MemoryStore backup = sim.store();
    ASSERT_TRUE(RunToStep(sim, id, 20));  // checkpoints of the backup are superseded
    RestoreAndStart(sim, backup);
    const int known = sim.Job(id).checkpoints_size();
    ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "GangReadopted") == 1; }, 60'000))
        << sim.history();
    EXPECT_GT(sim.Job(id).checkpoints_size(), known);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0) << sim.history();
    EXPECT_EQ(sim.Job(id).epoch(), 1u);
    EXPECT_EQ(sim.rules().steps_trained_again(id), 0);
    for (const v1::CheckpointInfo& info : sim.Job(id).checkpoints()) {
      EXPECT_TRUE(sim.files().Exists(info.directory())) << info.directory();
    }
    ExpectClean(sim);
  }
}

// What was sent again is sent again a second time, from wherever the next controller begins.
TEST_F(RestoreTest, AControllerThatDiesWhileItSendsAgainCostsNothing) {
  for (int effects = 0; effects < 40; ++effects) {
    SCOPED_TRACE(effects);
    Simulation::Options options = SlowSteps();
    options.shape.answer_tokens = 64;
    Simulation sim(options);
    const std::string id = sim.Submit({.steps = 30, .eval_steps = 7, .save_steps = 2});
    ASSERT_TRUE(RunToStep(sim, id, 1));
    const store::MemoryStore backup = sim.store();
    ASSERT_TRUE(RunToStep(sim, id, 16));
    RestoreAndStart(sim, backup);
    sim.KillControllerAfter(effects, 700);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
    EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0) << sim.history();
    EXPECT_EQ(sim.rules().steps_trained_again(id), 0) << sim.history();
    ExpectClean(sim);
  }
}

// The backup is of a time before the job's gangs: what the restored controller calls gang 1, these
// workers have had already.
TEST_F(RestoreTest, NumbersOfGangsThatWorkersHaveHadAreUsedAgain) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.steps = 20, .save_steps = 2}, /*paused=*/true);
  const store::MemoryStore backup = sim.store();
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(RunToStep(sim, id, 3));
  sim.RestartWorker(1, 500);  // the other one has been in two gangs of it
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).epoch() == 2; }, 120'000));
  ASSERT_TRUE(RunToStep(sim, id, 5));
  RestoreAndStart(sim, backup);
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  ExpectClean(sim);
}

// The later report is the higher one: the gang that runs by then keeps its term, and goes on.
TEST_F(RestoreTest, ATermThatRisesInMidLifeCostsNoGang) {
  Simulation sim(SlowSteps(3));
  sim.workers().Partition(2, true);
  sim.workers().SeeTerm(0, 50);
  sim.workers().SeeTerm(2, 70);
  Restart(sim);
  const std::string id = sim.Submit({.steps = 40});
  ASSERT_TRUE(RunToStep(sim, id, 3));
  EXPECT_EQ(sim.registry().term(), 51u);
  sim.workers().Partition(2, false);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.registry().term() == 71; }, 20'000));
  EXPECT_EQ((*sim.jobs().Find(id))->gang()->term, 51u);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  const std::string next = sim.Submit({.name = "next", .workers = 3});
  ASSERT_TRUE(sim.RunUntilState(next, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(CountOf(sim, next, "AttemptFailed"), 0);
  ExpectClean(sim);
}

// A worker that has seen just this term saw it of another start.
TEST_F(RestoreTest, AnEqualTermOfAnotherStartIsGoneAbove) {
  Simulation sim(SlowSteps());
  sim.workers().SeeTerm(1, sim.registry().term() + 1);
  Restart(sim);
  const uint64_t drawn = sim.registry().term();
  ASSERT_TRUE(sim.RunUntil([&] { return sim.registry().term() == drawn + 1; }, 20'000));
  sim.RunFor(30'000);  // registering again raises nothing
  EXPECT_EQ(sim.registry().term(), drawn + 1);
}

TEST_F(RestoreTest, ATermOutOfReachLeavesThatWorkerOutByName) {
  Simulation sim(SlowSteps(3));
  const uint64_t most = sim.registry().term() + 1 + scheduler::Registry::kMostTermsAhead;
  sim.workers().SeeTerm(1, most + 1);
  sim.workers().SeeTerm(2, most);
  Restart(sim);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return !RefusalOf(sim, "sim/1").empty(); }, 5'000));
  const std::string reason = RefusalOf(sim, "sim/1");
  EXPECT_NE(reason.find("worker sim/1 has seen controller term " + std::to_string(most + 1)),
            std::string::npos)
      << reason;
  EXPECT_NE(reason.find("this controller began with term 2"), std::string::npos) << reason;
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.history();
  EXPECT_EQ(sim.registry().term(), most + 1);
  sim.RestartWorker(1, 100);  // a new process has seen no term
  ASSERT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 3; }, 10'000));
  EXPECT_EQ(RefusalOf(sim, "sim/1"), "");
}

// Invariant agent-1. Idle workers are taken at once, those in a gang of the lost store when they
// have dropped it.
TEST_F(RestoreTest, WorkersOfALostStoreAreFreeAfterTheirLease) {
  Simulation sim(SlowSteps(3));
  const std::string lost = sim.Submit({.steps = 40, .save_steps = 2});
  for (int start = 0; start < 3; ++start) Restart(sim);
  ASSERT_TRUE(RunToStep(sim, lost, 5));
  const uint64_t seen = sim.registry().term();
  sim.CrashController();
  sim.LoseStore();
  sim.StartController();
  EXPECT_EQ(sim.registry().term(), 1u);
  const std::string small = sim.Submit({.name = "small", .workers = 1});
  ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_SUCCEEDED, 30'000)) << sim.history();
  EXPECT_GT(sim.registry().term(), seen);
  const std::string reason = RefusalOf(sim, "sim/0");
  EXPECT_NE(reason.find("gang 1 of job " + lost + " of a controller with store memory,"),
            std::string::npos)
      << reason;
  EXPECT_NE(reason.find("this controller has store memory-again"), std::string::npos) << reason;
  const std::string id = sim.Submit({.steps = 40, .save_steps = 2});  // again
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 120'000)) << sim.history();
  EXPECT_EQ(RefusalOf(sim, "sim/0"), "");
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
  ExpectClean(sim);
}

TEST_F(RestoreTest, WithoutAStoreThatTakesTheTermNoWorkerIsTaken) {
  Simulation sim(SlowSteps());
  sim.workers().SeeTerm(0, 9);
  Restart(sim);
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  sim.RunFor(5'000);
  EXPECT_EQ(sim.registry().term(), 2u);
  EXPECT_EQ(sim.registry().Find(sim.workers().incarnation(0)), nullptr);
  EXPECT_NE(sim.registry().Find(sim.workers().incarnation(1)), nullptr);
  sim.store().set_write_error(absl::OkStatus());
  ASSERT_TRUE(sim.RunUntil([&] { return sim.registry().term() == 10; }, 5'000));
}

}  // namespace
}  // namespace coxswain::sim
