// A stall of the controller, or of everything, is nobody's silence. Invariant controller-5.
#include <gtest/gtest.h>

#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kStall = 20'000;

void ExpectUndisturbed(Simulation& sim, const std::string& id) {
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  for (const v1::JobEvent& failed : sim.Events(id, "AttemptFailed")) {
    ADD_FAILURE() << failed.message();
  }
  for (const std::string& violation : sim.Violations()) ADD_FAILURE() << violation;
}

class StallTest : public support::JobTest {
 protected:
  static int64_t StalledMs(Simulation& sim) { return sim.deps().loop->stalled_ns() / 1'000'000; }
};

TEST_F(StallTest, ALoopThatWasBusyWithOtherThingsLosesNoGang) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  sim.StallLoop(kStall);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_GE(StalledMs(sim), kStall - 1000);
  EXPECT_LE(StalledMs(sim), kStall);
  ExpectUndisturbed(sim, id);
}

TEST_F(StallTest, AWorkerThatWentMeanwhileIsLostOneLeaseLater) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  sim.workers().Partition(1, true);
  sim.StallLoop(kStall);
  sim.RunFor(1000);
  EXPECT_TRUE(sim.Events(id, "AttemptFailed").empty());
  ASSERT_TRUE(sim.RunUntil([&] { return !sim.Events(id, "AttemptFailed").empty(); }, 7'000));
}

// Whatever a gang is at; most of the time its heartbeats tell of a collective. `delay_ms`: of
// messages.
void ExpectNoHang(int64_t delay_ms) {
  Simulation::Options options;
  options.network.step_ms = 1500;
  options.network.max_delay_ms = delay_ms;
  options.settings.hang_floor = std::chrono::milliseconds(8000);
  options.settings.first_step_timeout = std::chrono::milliseconds(8000);
  for (int moment = 0; moment < 60; ++moment) {
    SCOPED_TRACE(moment);
    Simulation sim(options);
    const std::string id = sim.Submit({});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
    sim.RunFor(130 * moment);
    sim.Suspend(kStall);
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
    ExpectUndisturbed(sim, id);
  }
}

TEST_F(StallTest, NothingIsTakenForAHang) { ExpectNoHang(3); }

TEST_F(StallTest, NothingIsTakenForAHangWhereAnswersTakeLonger) { ExpectNoHang(1800); }

TEST_F(StallTest, AGangThatFormsHasItsTimeToConnect) {
  Simulation::Options options = SlowSteps();
  options.network.max_delay_ms = 400;
  for (int moment = 0; moment < 20; ++moment) {
    SCOPED_TRACE(moment);
    Simulation sim(options);
    const std::string id = sim.Submit({});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FORMING));
    sim.RunFor(50 * moment);
    sim.Suspend(130'000);  // connect_timeout is 120 s
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
    ExpectUndisturbed(sim, id);
  }
}

TEST_F(StallTest, ADrainHasItsTimeToFinish) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  sim.Suspend(40'000);  // drain_floor is 30 s
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  ExpectUndisturbed(sim, id);
}

}  // namespace
}  // namespace coxswain::sim
