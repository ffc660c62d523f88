// What faults of workers, storage and machines cost a job, over fake workers in virtual time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/incidents/incident_files.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobFaultsTest : public support::JobTest {
 protected:
  static driver::JobDriver& Driver(Simulation& sim, const std::string& id) {
    return **sim.jobs().Find(id);
  }
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil(
        [&] {
          return sim.Job(id).state() == v1::JOB_STATE_RUNNING &&
                 sim.Job(id).progress().step() >= step;
        },
        600'000);
  }
  static bool AllFree(Simulation& sim, size_t workers) {
    return sim.RunUntil([&] { return sim.registry().Free("cpu").size() == workers; }, 20'000);
  }
  // The newest that is kept of the job, soon.
  static nlohmann::json LastIncident(Simulation& sim, const std::string& id) {
    if (!sim.RunUntil([&] { return CountOf(sim, id, "IncidentKept") > 0; }, 3'000)) return {};
    const v1::IncidentKept kept = sim.Events(id, "IncidentKept").back().incident_kept();
    return nlohmann::json::parse(sim.files().Read(kept.path()).value_or("null"));
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

// The order of a failure.

std::string StagesOf(Simulation& sim, const std::string& id) {
  std::string stages;
  for (const v1::JobEvent& event : sim.Events(id, "RecoveryStage")) {
    stages += event.recovery_stage().stage() + " ";
  }
  return stages;
}

// Invariant failure-1.
TEST_F(JobFaultsTest, ADumpIsTakenBeforeTheAbort) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  EXPECT_EQ(CountOf(sim, id, "IncidentKept"), 0);
  sim.workers().Hang(1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING, 60'000));
  const nlohmann::json dump = LastIncident(sim, id);
  EXPECT_EQ(dump.at("job"), id);
  EXPECT_EQ(dump.at("epoch"), 1);
  EXPECT_EQ(dump.at("reason"), "failure");
  EXPECT_NE(dump.at("error").get<std::string>().find("rank 1"), std::string::npos) << dump;
  ASSERT_EQ(dump.at("ranks").size(), 2u);
  EXPECT_EQ(dump.at("ranks")[0].at("rank"), 1);  // who is suspected comes first
  for (const nlohmann::json& rank : dump.at("ranks")) {
    EXPECT_EQ(rank.at("dump").at("epoch"), 1);  // after an abort it has none
    EXPECT_EQ(rank.at("controller").at("phase"), "RUNNING");
    EXPECT_EQ(rank.at("process").at("state"), "S (sleeping)");
  }
  EXPECT_EQ(dump.at("groups").size(), 2u);  // one waits, one stands still
  EXPECT_EQ(dump.at("finding").at("ranks"), std::vector<int>{1}) << dump.at("explanation");
  EXPECT_EQ(sim.Events(id, "IncidentKept")[0].incident_kept().odd_ranks(0), 1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(StagesOf(sim, id), "suspect dump abort respawn ");
  const std::string suspect = sim.Events(id, "RecoveryStage")[0].message();
  EXPECT_NE(suspect.find("suspect (1 s): rank 1"), std::string::npos) << suspect;
  const v1::RecoveryStage stage = sim.Events(id, "RecoveryStage")[1].recovery_stage();
  EXPECT_EQ(stage.epoch(), 1u);
  EXPECT_EQ(stage.limit_seconds(), 2);
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, ARankThatCannotTellHoldsNothingUp) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().Stop(1);  // until its supervisor ends it
  ASSERT_TRUE(sim.RunUntil([&] { return !sim.Events(id, "AttemptFailed").empty(); }, 20'000));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING, 2'100));
  const nlohmann::json dump = LastIncident(sim, id);
  EXPECT_EQ(dump.at("ranks")[0].at("error"), "no answer");
  EXPECT_FALSE(dump.at("ranks")[0].contains("dump"));
  EXPECT_NE(dump.at("ranks")[0].at("stacks").get<std::string>().find("Multiply"),
            std::string::npos);  // its supervisor can tell
  EXPECT_EQ(dump.at("finding").at("ranks"), std::vector<int>{1});
  EXPECT_NE(dump.at("explanation").get<std::string>().find("the process of rank 1 is stopped"),
            std::string::npos)
      << dump.at("explanation");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

// A host that is cut off has neither worker nor supervisor to say anything.
TEST_F(JobFaultsTest, ARankThatNobodyCanTellOfIsInTheDumpWithTheReason) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().Partition(1, true);
  ASSERT_TRUE(sim.RunUntil([&] { return !sim.Events(id, "AttemptFailed").empty(); }, 60'000));
  const nlohmann::json dump = LastIncident(sim, id);
  for (const nlohmann::json& rank : dump.at("ranks")) {
    const bool cut = rank.at("rank") == 1;
    EXPECT_EQ(rank.contains("error"), cut) << rank;
    EXPECT_EQ(rank.contains("stacks_error"), cut) << rank;
    EXPECT_FALSE(rank.at("controller").at("phase").get<std::string>().empty());
  }
}

TEST_F(JobFaultsTest, ADumpThatCannotBeKeptIsToldAndHoldsNothingUp) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.files().FailWrites("/state", absl::ResourceExhaustedError("no space left"));
  sim.workers().Hang(1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "IncidentKept"), 0);
  const std::vector<v1::JobEvent> warnings = sim.Events(id, "Warning");
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].message().find("the dump of gang 1 cannot be kept: no space left"),
            std::string::npos)
      << warnings[0].message();
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, OnlyTheNewestIncidentsOfAJobAreKept) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 1});
  const auto most = static_cast<int>(incidents::kMostFailures);
  for (int failure = 0; failure <= most; ++failure) {
    ASSERT_TRUE(RunToStep(sim, id, failure + 1)) << sim.Job(id).error().message();
    sim.RestartWorker(1, 200);
    ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "IncidentKept") > failure; }, 60'000));
  }
  const std::vector<v1::JobEvent> kept = sim.Events(id, "IncidentKept");
  EXPECT_FALSE(sim.files().Exists(kept[0].incident_kept().path()));
  for (size_t i = 1; i < kept.size(); ++i) {
    EXPECT_TRUE(sim.files().Exists(kept[i].incident_kept().path()));
  }
}

// A user ends a gang, by cox dump --stop.

TEST_F(JobFaultsTest, AGangThatAUserStopsGoesOnFromItsCheckpointAndCostsNoRestart) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 0});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  ASSERT_TRUE(Driver(sim, id).StopGang(1).ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(StagesOf(sim, id), "suspect abort ");  // it was dumped before, by who stopped it
  EXPECT_EQ(Driver(sim, id).StopGang(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.Events(id, "GangFormed")[1].gang_formed().start_step(), 3);
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, AStopOfAnEarlierGangEndsNoOther) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).epoch() == 2; }, 60'000));
  const absl::Status stopped = Driver(sim, id).StopGang(1);
  EXPECT_EQ(stopped.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(stopped.message().find("gang 1 has ended already"), std::string::npos) << stopped;
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
}

TEST_F(JobFaultsTest, AStopWhileTheGangFailsOrFormsIsHonouredOnce) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FORMING, 60'000));
  ASSERT_TRUE(Driver(sim, id).StopGang(1).ok());
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().Stop(1);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "AttemptFailed") == 2; }, 20'000));
  ASSERT_TRUE(Driver(sim, id).StopGang(2).ok());  // it is being dumped
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 2);
  EXPECT_EQ(sim.Job(id).restarts(), 1);
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, WhatExplainsItselfIsNotDumped) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  v1::Error bad;
  bad.set_code("INVALID_ARGUMENT");
  bad.set_kind(v1::ERROR_KIND_USER);
  sim.workers().FailCommand(6, bad);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 60'000));
  EXPECT_EQ(StagesOf(sim, id), "");  // a user's mistake is not recovered from
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 1);
  EXPECT_EQ(CountOf(sim, id, "IncidentKept"), 0);
  EXPECT_TRUE(AllFree(sim, 2));
}

TEST_F(JobFaultsTest, AWorkerThatDoesNotComeBackIsReplacedAndThenTheGangQueuesUp) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.RestartWorker(1, 3'600'000);
  sim.RunFor(29'000);
  EXPECT_EQ(StagesOf(sim, id), "suspect dump abort respawn ");
  sim.RunFor(10'000);
  EXPECT_EQ(StagesOf(sim, id), "suspect dump abort respawn replace ");
  EXPECT_TRUE(Driver(sim, id).KeepsWorkers());
  sim.RunFor(600'000);
  EXPECT_EQ(StagesOf(sim, id), "suspect dump abort respawn replace requeue ");
  EXPECT_FALSE(Driver(sim, id).KeepsWorkers());
  sim.AddWorker(2);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, APauseOrCancelDuringADumpIsHonoured) {
  for (const bool cancel : {true, false}) {
    Simulation sim(SlowSteps());
    const std::string id = sim.Submit({});
    ASSERT_TRUE(RunToStep(sim, id, 4));
    sim.workers().Stop(1);
    ASSERT_TRUE(sim.RunUntil([&] { return !sim.Events(id, "AttemptFailed").empty(); }, 20'000));
    EXPECT_TRUE((cancel ? Driver(sim, id).Cancel() : Driver(sim, id).Pause()).ok());
    ASSERT_TRUE(
        sim.RunUntilState(id, cancel ? v1::JOB_STATE_CANCELLED : v1::JOB_STATE_PAUSED, 2'100));
    EXPECT_EQ(StagesOf(sim, id), "suspect dump abort ");
    ASSERT_TRUE(AllFree(sim, 2));
    if (cancel) continue;
    ASSERT_TRUE(Driver(sim, id).Resume(0).ok());
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
    ExpectClean(sim);
  }
}

// Invariant driver-6.
TEST_F(JobFaultsTest, AReplayWithOtherBitsIsABugThatEndsTheJobWithItsEvidence) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 5));
  sim.workers().set_nonfinite_steps({4});  // which was finite, and is done again
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 60'000));
  EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_BUG);
  EXPECT_NE(sim.Job(id).error().message().find("ReplayDivergence: step 4"), std::string::npos);
  EXPECT_EQ(CountOf(sim, id, "ReplayDivergence"), 1);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "IncidentKept") == 2; }, 1'000));
  EXPECT_EQ(LastIncident(sim, id).at("epoch"), 2);
  EXPECT_TRUE(AllFree(sim, 2));
}

// Invariant failure-3.
TEST_F(JobFaultsTest, ATransitionThatCannotBeFailsThatJobAlone) {
  Simulation sim(SlowSteps(2));
  const std::string broken = sim.Submit({.name = "broken", .workers = 1});
  const std::string other = sim.Submit({.name = "other", .workers = 1});
  ASSERT_TRUE(RunToStep(sim, broken, 2));
  const scheduler::Worker* worker = sim.registry().Find(sim.workers().Hello(0).incarnation());
  Driver(sim, broken).Admit({*worker});  // it has its workers
  EXPECT_EQ(sim.Job(broken).state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(sim.Job(broken).error().kind(), v1::ERROR_KIND_BUG);
  EXPECT_NE(sim.Job(broken).error().message().find("RUNNING"), std::string::npos);
  ASSERT_TRUE(sim.RunUntilState(other, v1::JOB_STATE_SUCCEEDED));
}

// Restarts are counted since the last checkpoint that was new.

TEST_F(JobFaultsTest, FaultsBetweenNewCheckpointsDoNotAddUp) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 2, .max_restarts = 1});
  for (const int64_t step : {3, 5, 7, 9}) {
    ASSERT_TRUE(RunToStep(sim, id, step)) << sim.Job(id).error().message();
    sim.RestartWorker(1, 200);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING, 60'000));
    EXPECT_EQ(sim.Job(id).restarts_since_checkpoint(), 1);
  }
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 4);
  EXPECT_EQ(sim.Job(id).restarts_since_checkpoint(), 0);
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, AJobThatMakesNoNewCheckpointEnds) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100, .max_restarts = 2});
  for (int fault = 0; fault < 3; ++fault) {
    ASSERT_TRUE(RunToStep(sim, id, 2));
    sim.RestartWorker(1, 200);
    ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).state() != v1::JOB_STATE_RUNNING; }, 60'000));
  }
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 1000));
  const std::string message = sim.Job(id).error().message();
  EXPECT_NE(message.find("gave up after 2 restarts without a new checkpoint, "
                         "resources.max_restarts"),
            std::string::npos)
      << message;
}

TEST_F(JobFaultsTest, TheLifeOfAJobIsBounded) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 1, .max_restarts = 1, .max_restarts_total = 3});
  for (const int64_t step : {2, 4, 6, 8}) {
    ASSERT_TRUE(RunToStep(sim, id, step)) << sim.Job(id).error().message();
    sim.RestartWorker(1, 200);
    ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).state() != v1::JOB_STATE_RUNNING; }, 60'000));
  }
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 1000));
  EXPECT_NE(sim.Job(id).error().message().find("resources.max_restarts_total"), std::string::npos);
}

TEST_F(JobFaultsTest, BothCountsOutliveTheController) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100, .max_restarts = 1});
  ASSERT_TRUE(RunToStep(sim, id, 2));
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING));
  sim.RunFor(100);  // the journal's delay
  sim.CrashController();
  sim.StartController();
  EXPECT_EQ(sim.Job(id).restarts(), 1);
  EXPECT_EQ(sim.Job(id).restarts_since_checkpoint(), 1);
  ASSERT_TRUE(RunToStep(sim, id, 2));
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 60'000));
}

// An older release stored one count, and no new checkpoint made it fall.
TEST_F(JobFaultsTest, AJobOfAnOlderReleaseBeginsANewCount) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100, .max_restarts = 3});
  ASSERT_TRUE(RunToStep(sim, id, 2));
  sim.RunFor(100);
  sim.CrashController();
  store::Batch batch;
  batch.jobs = *sim.store().Jobs();
  batch.jobs[0].job.set_restarts(3);
  batch.jobs[0].job.clear_restarts_since_checkpoint();
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.StartController();
  ASSERT_TRUE(RunToStep(sim, id, 2));
  sim.RestartWorker(1, 200);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 4);
}

// Storage.

TEST_F(JobFaultsTest, AFailedSaveCostsACheckpointAndTrainingGoesOn) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));  // checkpoint 3 is there
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("cannot write: no space left"));
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "CheckpointFailed") == 1; }, 60'000));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_RUNNING);
  const v1::JobEvent event = sim.Events(id, "CheckpointFailed")[0];
  EXPECT_NE(event.message().find("checkpoint of step 6 failed"), std::string::npos);
  EXPECT_NE(event.message().find("no space left"), std::string::npos) << event.message();
  EXPECT_EQ(event.checkpoint_failed().kind(), "storage");
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(CountOf(sim, id, "StepDone"), 12);
  EXPECT_EQ(CountOf(sim, id, "CheckpointCommitted"), 3);  // 3, 9, 12
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, AResumeDoesNotWaitForTheNextTry) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 10));
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  sim.RunFor(900'000);
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(Driver(sim, id).Pause().ok());
  ASSERT_TRUE(Driver(sim, id).Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING, 2000));
}

// A rank that still writes trains no step: sent now, it would look like a hang.
TEST_F(JobFaultsTest, TrainingGoesOnWhenNoRankWritesAnyMore) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().SlowSave(0, 0, absl::ResourceExhaustedError("no space left"));
  sim.workers().SlowSave(1, 100'000, absl::OkStatus());
  const auto trained = [&] { return sim.Job(id).progress().step(); };
  ASSERT_TRUE(sim.RunUntil([&] { return trained() >= 6; }, 60'000));
  sim.RunFor(50'000);
  EXPECT_EQ(CountOf(sim, id, "CheckpointFailed"), 0);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "CheckpointFailed") == 1; }, 60'000));
  sim.workers().SlowSave(0, 0, absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
}

TEST_F(JobFaultsTest, AStoreThatIsFullDoesNotUseUpTheRestarts) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 1});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  sim.RestartWorker(1, 200);
  sim.RunFor(600'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_RECOVERING) << sim.Job(id).error().message();
  sim.store().set_write_error(absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
}

TEST_F(JobFaultsTest, TheLastSaveIsNotSkipped) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 0, .max_restarts_total = 0});
  ASSERT_TRUE(RunToStep(sim, id, 10));
  sim.files().FailWrites("/out",
                         absl::PermissionDeniedError("cannot write: Read-only file system"));
  EXPECT_NE(SetbackOf(sim, id, v1::ERROR_KIND_STORAGE).find("Read-only"), std::string::npos);
  sim.RunFor(3'600'000);  // an hour of tries
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  const int tries = CountOf(sim, id, "AttemptFailed");
  EXPECT_GT(tries, 10);  // 5, 10, 20 ... at most 300 s apart
  EXPECT_LT(tries, 25);
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
  EXPECT_FALSE(sim.Job(id).has_setback());
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, TheBestCheckpointIsNotSkipped) {
  Simulation::Options options;
  Simulation sim(options);
  const std::string id = sim.Submit(
      {.eval_steps = 1, .save_steps = 100, .extra_eval = ", early_stopping_patience: 8"});
  ASSERT_TRUE(RunToStep(sim, id, 0));
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  const int64_t best_step = sim.Job(id).progress().best_step();
  EXPECT_GT(best_step, 0);
  EXPECT_EQ(sim.Events(id, "CheckpointFailed")[0].checkpoint_failed().step(), best_step);
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
  EXPECT_EQ(sim.Events(id, "Exported")[0].exported().step(), sim.Job(id).progress().best_step());
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, APauseIsHonouredThoughItsCheckpointFails) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  ASSERT_TRUE(Driver(sim, id).Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED, 60'000));
  EXPECT_EQ(CountOf(sim, id, "CheckpointFailed"), 1);
  EXPECT_NE(sim.Events(id, "StateChanged").back().message().find("without a checkpoint"),
            std::string::npos);
  EXPECT_TRUE(AllFree(sim, 2));
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(Driver(sim, id).Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, ACancelDoesNotWaitForStorage) {
  Simulation sim(SlowSteps());
  const std::string saving = sim.Submit({.save_steps = 2});
  ASSERT_TRUE(RunToStep(sim, saving, 3));
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, saving, "CheckpointFailed") > 0; }, 60'000));
  ASSERT_TRUE(Driver(sim, saving).Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(saving, v1::JOB_STATE_CANCELLED, 60'000));
  EXPECT_TRUE(AllFree(sim, 2));
  sim.files().FailWrites("/out", absl::OkStatus());
  for (const bool cancel : {true, false}) {
    const std::string id = sim.Submit({.name = cancel ? "cancelled" : "paused"});
    ASSERT_TRUE(RunToStep(sim, id, 10));
    sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
    SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
    EXPECT_TRUE((cancel ? Driver(sim, id).Cancel() : Driver(sim, id).Pause()).ok());
    EXPECT_EQ(sim.Job(id).state(), cancel ? v1::JOB_STATE_CANCELLED : v1::JOB_STATE_PAUSED);
    EXPECT_FALSE(sim.Job(id).has_setback());
    sim.RunFor(400'000);
    EXPECT_EQ(sim.Job(id).state(), cancel ? v1::JOB_STATE_CANCELLED : v1::JOB_STATE_PAUSED);
    sim.files().FailWrites("/out", absl::OkStatus());
  }
}

TEST_F(JobFaultsTest, OutputThatIsUnmountedIsWaitedForAndNotBegunAnew) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 1});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.CrashController();  // a reboot
  sim.files().Unmount("/out");
  sim.StartController();
  const std::string message = SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  EXPECT_NE(message.find("/out/job"), std::string::npos) << message;
  EXPECT_NE(message.find("mounted"), std::string::npos) << message;
  sim.RunFor(1'000'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  sim.files().Mount();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
  EXPECT_EQ(sim.Events(id, "GangFormed")[1].gang_formed().start_step(), 3);
  ExpectClean(sim);
}

TEST_F(JobFaultsTest, ABaseModelThatVanishesIsWaitedForByAJobThatHasRun) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 0});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.CrashController();
  sim.FailPreparation(absl::NotFoundError("cannot open /model/config.json: No such file"));
  sim.StartController();
  SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  EXPECT_EQ(sim.Job(id).setback().phase(), "prepare_data");
  sim.RunFor(100'000);
  sim.FailPreparation(absl::OkStatus());
  sim.workers().FailPrepare(absl::NotFoundError("cannot open /model/model.safetensors"));
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).setback().phase() == "prepare"; }, 400'000));
  sim.workers().FailPrepare(absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  ExpectClean(sim);
}

// The first attempt tells the user at once.
TEST_F(JobFaultsTest, AJobThatNeverRanFailsByWhatItsUserGave) {
  const std::vector<absl::Status> of_prepare = {
      absl::NotFoundError("cannot open /model/model.safetensors"),
      absl::ResourceExhaustedError("weights need 90 GiB, 80 GiB are free"),
      absl::FailedPreconditionError("this GPU has no code in the build"),
      absl::InvalidArgumentError("model.safetensors: header is damaged")};
  for (const absl::Status& status : of_prepare) {
    Simulation sim({});
    sim.workers().FailPrepare(status);
    const std::string id = sim.Submit({});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 10'000)) << status;
    EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_USER) << status;
  }
  Simulation sim({});
  sim.FailPreparation(absl::NotFoundError("cannot open /model/config.json"));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 10'000));
  EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_USER);
}

TEST_F(JobFaultsTest, AFullDiskIsNotTheFaultOfAJobThatNeverRan) {
  Simulation sim({});
  sim.files().FailWrites("/out", absl::ResourceExhaustedError("no space left"));
  const std::string id = sim.Submit({});
  SetbackOf(sim, id, v1::ERROR_KIND_STORAGE);
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
}

TEST_F(JobFaultsTest, AnExportThatFindsNoRoomIsMadeAgain) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.files().FailWrites("/out/job/adapter", absl::ResourceExhaustedError("no space left"));
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "ExportFailed") == 3; }, 60'000));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_EXPORTING);
  EXPECT_EQ(sim.Job(id).setback().message(), "no space left");
  EXPECT_EQ(sim.registry().Free("cpu").size(), 2u);
  sim.files().FailWrites("/out/job/adapter", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
  EXPECT_FALSE(sim.Job(id).has_setback());
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
}

TEST_F(JobFaultsTest, AnExportWaitsForCheckpointsThatAreUnmounted) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.CrashController();
  sim.files().Unmount("/out");
  sim.StartController();
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "ExportFailed") == 2; }, 60'000));
  EXPECT_NE(sim.Job(id).setback().message().find("mounted"), std::string::npos);
  sim.files().Mount();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
}

TEST_F(JobFaultsTest, ACancelEndsAnExportThatWaits) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.files().FailWrites("/out/job/adapter", absl::ResourceExhaustedError("no space left"));
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "ExportFailed") == 1; }, 60'000));
  ASSERT_TRUE(Driver(sim, id).Cancel().ok());
  sim.RunFor(60'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(CountOf(sim, id, "ExportFailed"), 1);
}

// Machines.

TEST_F(JobFaultsTest, AReplacementWithAnotherFingerprintIsNotTheEnd) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.max_restarts = 1});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.RestartWorker(1, 500);
  sim.RunFor(500);
  sim.workers().set_fingerprint(1, "other");
  EXPECT_NE(SetbackOf(sim, id, v1::ERROR_KIND_HOST).find("fingerprint"), std::string::npos);
  sim.RunFor(100'000);
  sim.workers().set_fingerprint(1, "sim");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
  EXPECT_EQ(sim.Job(id).restarts(), 1);  // the kill
  ExpectClean(sim);
}

// The gang of one job ends while its Prepare is on the way; the worker takes it for another's.
TEST_F(JobFaultsTest, ALatePrepareOfAnotherJobIsNotTheUsersFault) {
  Simulation sim(SlowSteps(1));
  sim.RunFor(2000);
  v1::PrepareRequest late;
  v1::Fence& fence = *late.mutable_fence();
  fence.set_term(1);
  fence.set_job("stray");
  fence.set_epoch(1);
  const std::string incarnation = sim.workers().Hello(0).incarnation();
  fence.set_worker_incarnation(incarnation);
  sim.workers().set_store(nullptr);  // this epoch was of an earlier time
  ASSERT_TRUE(sim.files().MakeDirs("/out").ok());
  ASSERT_TRUE(sim.files().WriteDurably("/out/nonce", "n").ok());
  late.set_nonce_path("/out/nonce");
  late.set_nonce("n");
  sim.workers().Prepare(sim.registry().Find(incarnation)->target, late,
                        std::chrono::milliseconds(100), [](const auto&) {});
  const std::string id = sim.Submit({.workers = 1});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000))
      << sim.Job(id).error().message();
  EXPECT_LE(sim.Job(id).restarts(), 3);
}

// Who keeps workers. Rules: controller/scheduler/README.md.

TEST_F(JobFaultsTest, AGangThatWaitsForAWorkerLosesNoneToASmallJob) {
  Simulation sim(SlowSteps(3));
  const std::string gang = sim.Submit({.name = "gang", .workers = 3});
  ASSERT_TRUE(RunToStep(sim, gang, 4));
  const std::string small = sim.Submit({.name = "small", .workers = 1, .priority = 9});
  sim.RestartWorker(2, 60'000);
  sim.RunFor(30'000);
  EXPECT_EQ(sim.Job(gang).state(), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(sim.registry().Free("cpu").size(), 2u);
  EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(gang).epoch() == 2; }, 120'000));
  EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_SUCCEEDED, 120'000));
  ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_SUCCEEDED));
}

TEST_F(JobFaultsTest, ACancelledOrPausedGangGivesItsWorkersUpAtOnce) {
  for (const bool cancel : {true, false}) {
    Simulation sim(SlowSteps(3));
    const std::string gang = sim.Submit({.name = "gang", .workers = 3});
    ASSERT_TRUE(RunToStep(sim, gang, 4));
    const std::string small = sim.Submit({.name = "small", .workers = 1});
    sim.RestartWorker(2, 3'600'000);
    sim.RunFor(20'000);
    EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
    EXPECT_TRUE((cancel ? Driver(sim, gang).Cancel() : Driver(sim, gang).Pause()).ok());
    ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_RUNNING, 1000));
  }
}

TEST_F(JobFaultsTest, AWorkerThatNeverReturnsDoesNotIdleTheOthersForEver) {
  Simulation sim(SlowSteps(3));
  const std::string gang = sim.Submit({.name = "gang", .workers = 3});
  ASSERT_TRUE(RunToStep(sim, gang, 4));
  const std::string small = sim.Submit({.name = "small", .workers = 1});
  sim.RestartWorker(2, 3'600'000);
  sim.RunFor(590'000);
  EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_SUCCEEDED, 60'000));
  EXPECT_EQ(sim.Job(gang).state(), v1::JOB_STATE_RECOVERING);
  sim.AddWorker(3);
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_SUCCEEDED, 120'000));
}

TEST_F(JobFaultsTest, StorageThatStaysAwayFreesTheWorkersForOthers) {
  Simulation sim(SlowSteps());
  const std::string gang = sim.Submit({.name = "gang", .output_dir = "/out/gang"});
  ASSERT_TRUE(RunToStep(sim, gang, 10));
  const std::string other = sim.Submit({.name = "other", .output_dir = "/elsewhere"});
  sim.files().FailWrites("/out", absl::PermissionDeniedError("read-only"));
  sim.workers().FailPrepare(absl::OkStatus());
  SetbackOf(sim, gang, v1::ERROR_KIND_STORAGE);
  ASSERT_TRUE(sim.RunUntilState(other, v1::JOB_STATE_SUCCEEDED, 1'800'000));
  EXPECT_NE(sim.Job(gang).state(), v1::JOB_STATE_FAILED);
  sim.files().FailWrites("/out", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_SUCCEEDED, 600'000));
}

TEST_F(JobFaultsTest, AGangKeepsItsWorkersOverAKilledController) {
  Simulation sim(SlowSteps(3));
  const std::string gang = sim.Submit({.name = "gang", .workers = 3});
  ASSERT_TRUE(RunToStep(sim, gang, 4));
  const std::string small = sim.Submit({.name = "small", .workers = 1, .priority = 9});
  sim.CrashController();
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_RUNNING, 30'000));
  EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_SUCCEEDED));
}

// Workers that leave. Invariant scheduler-9.

TEST_F(JobFaultsTest, ADrainNoticeIsHonouredInEveryState) {
  for (const v1::JobState state :
       {v1::JOB_STATE_ADMITTED, v1::JOB_STATE_FORMING, v1::JOB_STATE_RUNNING,
        v1::JOB_STATE_DRAINING, v1::JOB_STATE_RECOVERING, v1::JOB_STATE_EXPORTING}) {
    SCOPED_TRACE(v1::JobState_Name(state));
    const bool recovers = state == v1::JOB_STATE_RECOVERING;
    Simulation sim(SlowSteps(recovers ? 2 : 3));
    sim.RunFor(1500);
    const std::string id = sim.Submit({});
    if (state == v1::JOB_STATE_DRAINING || recovers) {
      ASSERT_TRUE(RunToStep(sim, id, 4));
      if (state == v1::JOB_STATE_DRAINING) {
        ASSERT_TRUE(Driver(sim, id).Pause().ok());
      }
      if (recovers) sim.RestartWorker(1, 200);
    }
    ASSERT_TRUE(sim.RunUntilState(id, state, 60'000));
    sim.workers().Drain(0);
    sim.registry().Beat(sim.workers().Beat(0), 0);
    if (recovers) sim.AddWorker(2);
    const std::string leaving = sim.workers().Hello(0).incarnation();
    // 12 steps take 6 s.
    EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Find(leaving)->job.empty(); }, 4'000));
    if (state == v1::JOB_STATE_DRAINING) {
      ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED, 60'000));
      ASSERT_TRUE(Driver(sim, id).Resume(0).ok());
    }
    bool used = false;
    ASSERT_TRUE(sim.RunUntil(
        [&] {
          used = used || !sim.registry().Find(leaving)->job.empty();
          return sim.Job(id).state() == v1::JOB_STATE_SUCCEEDED;
        },
        120'000));
    EXPECT_FALSE(used);
    EXPECT_EQ(sim.Job(id).restarts(), recovers ? 1 : 0);
    ExpectClean(sim);
  }
}

TEST_F(JobFaultsTest, AGangThatIsDrainedKeepsTheWorkersThatStay) {
  Simulation sim(SlowSteps(3));
  const std::string gang = sim.Submit({.name = "gang", .workers = 3});
  ASSERT_TRUE(RunToStep(sim, gang, 4));
  sim.workers().Drain(2);
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_DRAINING, 60'000));
  const std::string small = sim.Submit({.name = "small", .workers = 1, .priority = 9});
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_READY, 60'000));
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(small).state(), v1::JOB_STATE_READY);
  sim.RestartWorker(2, 500);
  ASSERT_TRUE(sim.RunUntilState(gang, v1::JOB_STATE_SUCCEEDED, 120'000));
  EXPECT_EQ(sim.Job(gang).restarts(), 0);
  EXPECT_EQ(CountOf(sim, gang, "StepDone"), 12);
  ASSERT_TRUE(sim.RunUntilState(small, v1::JOB_STATE_SUCCEEDED));
}

}  // namespace
}  // namespace coxswain::sim
