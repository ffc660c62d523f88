// Tracker files beside the life of a job: whole at its end, and never in its way.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "controller/driver/job/job_trackers.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobTrackersTest : public support::JobTest {
 protected:
  static std::string LinesOf(Simulation& sim, const std::string& id) {
    return sim.files().Read("/out/job/trackers/jsonl/" + id + ".jsonl").value_or("");
  }
  // Loss of each step, 1-based, and whether each stood once.
  static std::map<int64_t, double> Losses(const std::string& lines, bool* once) {
    std::map<int64_t, double> losses;
    std::istringstream in(lines);
    *once = true;
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("train/loss")) continue;
      *once = losses.emplace(json["step"], json["train/loss"]).second && *once;
    }
    return losses;
  }
  static std::map<int64_t, double> LossesTold(Simulation& sim, const std::string& id) {
    std::map<int64_t, double> losses;
    for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
      losses[event.step_done().step() + 1] = event.step_done().loss();
    }
    return losses;
  }
  static void ExpectWhole(Simulation& sim, const std::string& id) {
    bool once = false;
    EXPECT_EQ(Losses(LinesOf(sim, id), &once), LossesTold(sim, id));
    EXPECT_TRUE(once);
  }
  static int64_t Warnings(Simulation& sim, const std::string& id) {
    int64_t count = 0;
    for (const v1::JobEvent& event : sim.Events(id, "Warning")) {
      count += event.message().find("logging.report_to") != std::string::npos ? 1 : 0;
    }
    return count;
  }
};

TEST_F(JobTrackersTest, EveryStepAndEvaluationIsInTheFileAtTheEnd) {
  Simulation sim({});
  const std::string id = sim.Submit({.report_to = "jsonl, tensorboard, wandb"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(3000);
  ExpectWhole(sim, id);
  EXPECT_NE(LinesOf(sim, id).find("\"eval/loss\""), std::string::npos);
  EXPECT_EQ(sim.files().List("/out/job/trackers/tensorboard/" + id)->size(), 1u);
  EXPECT_EQ(sim.files().List("/out/job/trackers/wandb")->size(), 1u);
  ExpectClean(sim);
}

TEST_F(JobTrackersTest, AJobThatReportsToNoneWritesNone) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(3000);
  EXPECT_FALSE(sim.files().Exists("/out/job/trackers"));
}

TEST_F(JobTrackersTest, StepsOfAFailedGangAreReplaced) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(3000);
  EXPECT_GT(sim.Job(id).epoch(), 1u);
  ExpectWhole(sim, id);
}

// Invariant trackers-1, where the next controller continues.
TEST_F(JobTrackersTest, AnotherControllerGoesOn) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.CrashController();
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(3000);
  ExpectWhole(sim, id);
}

// Nobody else would write what the controller did not come to.
TEST_F(JobTrackersTest, AJobThatEndedJustBeforeTheControllerDiedIsWritten) {
  Simulation sim({});
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.CrashController();
  ASSERT_TRUE(sim.files().RemoveAll("/out/job/trackers").ok());
  sim.StartController();
  sim.RunFor(3000);
  ExpectWhole(sim, id);
}

// Invariant trackers-3.
TEST_F(JobTrackersTest, AFullDiskIsToldOnceAndStopsNoJob) {
  Simulation sim(SlowSteps());
  sim.files().FailWrites("/out/job/trackers", absl::ResourceExhaustedError("disk full"));
  const std::string id = sim.Submit({.steps = 200, .save_steps = 100, .report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 150; }, 600'000));
  EXPECT_EQ(Warnings(sim, id), 1);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  sim.files().FailWrites("", absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(40'000);
  ExpectWhole(sim, id);
}

TEST_F(JobTrackersTest, AFolderThatCannotBeWrittenAtTheEndIsGivenUp) {
  Simulation sim({});
  sim.files().FailWrites("/out/job/trackers", absl::PermissionDeniedError("read-only"));
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(40'000);
  EXPECT_EQ(Warnings(sim, id), 1);
  EXPECT_TRUE((*sim.jobs().Find(id))->AtRest());
}

// What a job that stands still told last comes later, and nothing of the job changes then.
TEST_F(JobTrackersTest, EventsThatTheStoreTakesLateAreWritten) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
  sim.RunFor(5000);
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  v1::JobEvent late;
  late.set_type("EvalDone");
  late.mutable_eval_done()->set_step(9);
  late.mutable_eval_done()->set_eval_loss(0.125);
  (*sim.jobs().Find(id))->Tell(late, "late");
  sim.RunFor(4000);
  sim.store().set_write_error(absl::OkStatus());
  sim.RunFor(4000);
  EXPECT_NE(LinesOf(sim, id).find("\"eval/loss\":0.125"), std::string::npos);
}

TEST_F(JobTrackersTest, AFolderThatCannotBeWrittenIsToldBeforeTheFirstStep) {
  Simulation sim(SlowSteps());
  sim.files().FailWrites("/out/job/trackers", absl::PermissionDeniedError("read-only"));
  const std::string id = sim.Submit({.report_to = "tensorboard"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(sim.Job(id).progress().step(), 0);
  EXPECT_EQ(Warnings(sim, id), 1);
}

// `cox train` stops its controller as soon as its job has ended.
TEST_F(JobTrackersTest, AControllerThatStopsWritesTheFilesOfEndedJobsFirst) {
  Simulation sim({});
  const std::string id = sim.Submit({.report_to = "jsonl"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_FALSE((*sim.jobs().Find(id))->AtRest());
  bool at_rest = false;
  sim.jobs().Stop([&] { at_rest = true; });
  ASSERT_TRUE(sim.RunUntil([&] { return at_rest; }, 10));
  ExpectWhole(sim, id);
}

// The part alone.
class JobTrackersPartTest : public support::JobPartTest {
 protected:
  JobTrackersPartTest() {
    spec_.report_to = {config::Tracker::kJsonLines};
    spec_.logging_dir = "/out/trackers";
    row_.job.set_state(v1::JOB_STATE_SUCCEEDED);
    row_.job.set_finished_unix_ms(clock_.UnixMs());
  }
};

TEST_F(JobTrackersPartTest, AnEndThatTheHistoryDoesNotTellIsGivenUpAndTheTableIsTold) {
  driver::JobTrackers trackers(job());
  trackers.Start();
  RunFor(5000);
  EXPECT_FALSE(trackers.AtRest());
  EXPECT_EQ(reschedules_, 0);
  RunFor(driver::JobTrackers::kLooksAfterChange * driver::JobTrackers::kPeriod.count());
  EXPECT_TRUE(trackers.AtRest());
  EXPECT_EQ(reschedules_, 1);
}

TEST_F(JobTrackersPartTest, AJobThatEndedLongAgoIsLeftAlone) {
  row_.job.set_finished_unix_ms(clock_.UnixMs() - driver::JobTrackers::kEndedLately.count() - 1);
  driver::JobTrackers trackers(job());
  trackers.Start();
  RunFor(5000);
  EXPECT_TRUE(trackers.AtRest());
  EXPECT_FALSE(files_.Exists("/out/trackers"));
}

}  // namespace
}  // namespace coxswain::sim
