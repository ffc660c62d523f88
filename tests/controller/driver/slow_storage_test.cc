// Slow is not stuck: what takes long while it gets on fails nothing. Invariant gang-7.
#include <gtest/gtest.h>

#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kHourMs = 3'600'000;

class SlowStorageTest : public support::JobTest {
 protected:
  static std::vector<std::string> Warnings(Simulation& sim, const std::string& id) {
    std::vector<std::string> messages;
    for (const v1::JobEvent& event : sim.Events(id, "Warning")) messages.push_back(event.message());
    return messages;
  }
};

TEST_F(SlowStorageTest, ALoadOfAnHourThatGetsOnBurnsNoRestart) {
  Simulation sim(SlowSteps());
  sim.workers().SlowPrepare(1, kHourMs, /*gets_on=*/true);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 2 * kHourMs));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
  EXPECT_TRUE(Warnings(sim, id).empty());
  ExpectClean(sim);
}

TEST_F(SlowStorageTest, ALoadThatStandsStillIsToldAndFailsAtItsLimit) {
  Simulation sim(SlowSteps());
  sim.workers().SlowPrepare(1, kHourMs, /*gets_on=*/false);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return !Warnings(sim, id).empty(); }, 90'000));
  EXPECT_TRUE(Warnings(sim, id).front().starts_with(
      "rank 1 on sim loads its weights and has made no progress for 60 s, limit 600 s"))
      << Warnings(sim, id).front();
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "AttemptFailed") > 0; }, 600'000));
  const std::string why = sim.Events(id, "AttemptFailed").front().message();
  EXPECT_NE(why.find("rank 1 on sim loads its weights and has made no progress for 60"),
            std::string::npos)
      << why;
}

TEST_F(SlowStorageTest, ASaveOfAnHourIsWaitedForWhileItGetsOn) {
  for (const bool gets_on : {true, false}) {
    SCOPED_TRACE(gets_on);
    Simulation sim(SlowSteps());
    sim.workers().SlowPrepare(0, 0, gets_on);
    sim.workers().SlowSave(0, kHourMs, absl::OkStatus());
    const std::string id = sim.Submit({.save_steps = 2});
    if (gets_on) {
      ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 20 * kHourMs));
      EXPECT_EQ(sim.Job(id).restarts(), 0);
    } else {
      ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "AttemptFailed") > 0; }, kHourMs / 2));
    }
  }
}

TEST_F(SlowStorageTest, AFirstStepMayTakeLongWhileRanksGetOn) {
  Simulation::Options options = Steps(400'000);  // first_step_timeout is 300 s
  for (const bool gets_on : {true, false}) {
    SCOPED_TRACE(gets_on);
    Simulation sim(options);
    sim.workers().SlowPrepare(1, 0, gets_on);
    const std::string id = sim.Submit({});
    const auto failed = [&] { return CountOf(sim, id, "AttemptFailed") > 0; };
    const auto stepped = [&] { return sim.Job(id).progress().step() >= 2; };
    ASSERT_TRUE(sim.RunUntil([&] { return failed() || stepped(); }, 2 * kHourMs));
    EXPECT_EQ(failed(), !gets_on);
  }
}

}  // namespace
}  // namespace coxswain::sim
