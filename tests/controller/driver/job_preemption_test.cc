// A job that lacks workers stops one of lower priority, which goes on later.
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobPreemptionTest : public support::JobTest {
 protected:
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() >= step; }, 600'000);
  }
  // Steps in the order in which they were trained.
  static std::vector<int64_t> StepsOf(Simulation& sim, const std::string& id) {
    std::vector<int64_t> steps;
    for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
      steps.push_back(event.step_done().step());
    }
    return steps;
  }
  static std::vector<int64_t> First(int64_t count) {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step < count; ++step) steps.push_back(step);
    return steps;
  }
  // How many events of a type came before the first Preempted.
  static int BeforePreemption(Simulation& sim, const std::string& id, const std::string& type) {
    int count = 0;
    for (const v1::JobEvent& event : sim.Events(id)) {
      if (event.type() == "Preempted") return count;
      count += event.type() == type;
    }
    return -1;
  }
};

TEST_F(JobPreemptionTest, AJobOfHigherPriorityStopsALowerOneWhichLosesNoStep) {
  Simulation sim(SlowSteps());
  const std::string low = sim.Submit({.name = "low", .save_steps = 100});
  ASSERT_TRUE(RunToStep(sim, low, 4));
  const std::string peer = sim.Submit({.name = "peer"});
  const std::string high = sim.Submit({.name = "high", .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(high, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(sim.Job(low).state(), v1::JOB_STATE_READY);
  ASSERT_EQ(CountOf(sim, low, "Preempted"), 1);
  const v1::Preempted preempted = sim.Events(low, "Preempted")[0].preempted();
  EXPECT_EQ(preempted.by(), high);
  EXPECT_EQ(preempted.by_priority(), 5);
  ASSERT_EQ(sim.Job(low).checkpoints_size(), 1);
  EXPECT_EQ(sim.Job(low).checkpoints(0).step(), sim.Job(low).progress().step());
  ASSERT_TRUE(sim.RunUntilState(low, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(high).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_NE(sim.Job(peer).state(), v1::JOB_STATE_SUCCEEDED);  // low kept its place before it
  EXPECT_EQ(StepsOf(sim, low), First(12));
  EXPECT_EQ(sim.Job(low).restarts(), 0);
  EXPECT_EQ(StepsOf(sim, high), First(12));
  ASSERT_TRUE(sim.RunUntilState(peer, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobPreemptionTest, AnEqualPriorityWaits) {
  Simulation sim(SlowSteps());
  const std::string first = sim.Submit({.name = "first", .priority = 5});
  ASSERT_TRUE(RunToStep(sim, first, 4));
  const std::string second = sim.Submit({.name = "second", .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, first, "Preempted"), 0);
  EXPECT_EQ(sim.Job(first).epoch(), 1u);
}

TEST_F(JobPreemptionTest, AJobThatLoadsOrRecoversIsNotStopped) {
  Simulation sim(SlowSteps());
  const std::string low = sim.Submit({.name = "low"});
  ASSERT_TRUE(sim.RunUntilState(low, v1::JOB_STATE_FORMING));
  const std::string high = sim.Submit({.name = "high", .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(high, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(BeforePreemption(sim, low, "GangFormed"), 1);
  ASSERT_TRUE(sim.RunUntilState(low, v1::JOB_STATE_SUCCEEDED));

  const std::string recovers = sim.Submit({.name = "recovers"});
  ASSERT_TRUE(RunToStep(sim, recovers, 5));
  sim.RestartWorker(1, 3000);
  ASSERT_TRUE(sim.RunUntilState(recovers, v1::JOB_STATE_RECOVERING));
  const std::string urgent = sim.Submit({.name = "urgent", .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(urgent, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(BeforePreemption(sim, recovers, "GangFormed"), 2);
  ASSERT_TRUE(sim.RunUntilState(recovers, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobPreemptionTest, AsFewAsAreNeededStopAndNobodyWhereWorkersComeAnyway) {
  Simulation sim(SlowSteps(4));
  const std::string pair = sim.Submit({.name = "pair", .workers = 2, .steps = 40});
  const std::string one = sim.Submit({.name = "one", .workers = 1, .steps = 40});
  const std::string other = sim.Submit({.name = "other", .workers = 1, .steps = 40});
  for (const std::string& id : {pair, one, other}) ASSERT_TRUE(RunToStep(sim, id, 4));
  const std::string high = sim.Submit({.name = "high", .workers = 2, .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(high, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(CountOf(sim, pair, "Preempted"), 1);
  ASSERT_TRUE((*sim.jobs().Find(one))->Cancel().ok());
  const std::string next = sim.Submit({.name = "next", .workers = 1, .priority = 7});
  ASSERT_TRUE(sim.RunUntilState(next, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(CountOf(sim, one, "Preempted") + CountOf(sim, other, "Preempted"), 0);
  EXPECT_EQ(CountOf(sim, high, "Preempted"), 0);
  ASSERT_TRUE(sim.RunUntilState(pair, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(StepsOf(sim, pair), First(40));
  EXPECT_EQ(CountOf(sim, pair, "Preempted"), 1);
  ExpectClean(sim);
}

TEST_F(JobPreemptionTest, OneThatIsCancelledMeanwhileLeavesTheWorkersToWhomTheyWere) {
  Simulation sim(SlowSteps());
  const std::string low = sim.Submit({.name = "low"});
  ASSERT_TRUE(RunToStep(sim, low, 4));
  const std::string high = sim.Submit({.name = "high", .priority = 5});
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, low, "Preempted") == 1; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(high))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(low, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(StepsOf(sim, low), First(12));
  ExpectClean(sim);
}

}  // namespace
}  // namespace coxswain::sim
