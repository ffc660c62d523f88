// What faults cost a job, over fake workers in virtual time.
#include <gtest/gtest.h>

#include "common/logging.h"
#include "tests/sim/simulation.h"

namespace coxswain::sim {
namespace {

class JobRecoveryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }

  static Simulation::Options SlowSteps(int workers = 2) {
    Simulation::Options options;
    options.workers = workers;
    options.network.step_ms = 500;
    return options;
  }
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil(
        [&] {
          return sim.Job(id).state() == v1::JOB_STATE_RUNNING &&
                 sim.Job(id).progress().step() >= step;
        },
        600'000);
  }
  static void ExpectClean(Simulation& sim) {
    for (const std::string& violation : sim.Violations()) ADD_FAILURE() << violation;
  }
};

// Restarts are counted since the last checkpoint that was new.

TEST_F(JobRecoveryTest, FaultsBetweenNewCheckpointsDoNotAddUp) {
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

TEST_F(JobRecoveryTest, AJobThatMakesNoNewCheckpointEnds) {
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

TEST_F(JobRecoveryTest, TheLifeOfAJobIsBounded) {
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

TEST_F(JobRecoveryTest, BothCountsOutliveTheController) {
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
TEST_F(JobRecoveryTest, AJobOfAnOlderReleaseBeginsANewCount) {
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

}  // namespace
}  // namespace coxswain::sim
