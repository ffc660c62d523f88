// Seeded schedules of faults against the real driver. On failure the seed and the faults are
// printed: rerun one with COXSWAIN_SIM_SEED=n. Rules: tests/sim/README.md.
#include "tests/sim/simulation.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "common/logging.h"

namespace coxswain::sim {
namespace {

class SimulationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("sim", log::Level::kError); }
};

struct Tally {
  uint64_t epochs = 0;
  uint64_t terms = 0;
};

void RunSchedule(uint64_t seed, Tally* tally) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Simulation::Options options;
  options.seed = seed;
  options.workers = 2 + static_cast<int>(seed % 3);
  options.network.duplicate_events = seed % 2 == 0 ? 0.1 : 0.0;
  options.network.max_delay_ms = 1 + static_cast<int64_t>(seed % 20);
  options.network.step_ms = 700;
  options.settings.credits = 1 + static_cast<int>(seed % 3);
  Simulation sim(options);
  JobShape first{.name = "first", .workers = options.workers};
  JobShape second{.name = "second", .workers = 1, .save_steps = 5};
  const std::vector<std::string> ids = {sim.Submit(first), sim.Submit(second)};
  sim.ScheduleFaults(/*horizon_ms=*/20000, /*faults=*/3 + static_cast<int>(seed % 6));
  const bool ended = sim.RunUntil(
      [&] {
        for (const std::string& id : ids) {
          if (sim.Job(id).state() != v1::JOB_STATE_SUCCEEDED) return false;
        }
        return true;
      },
      /*limit_ms=*/3'600'000);
  std::string states;
  for (const std::string& id : ids) {
    if (sim.up()) {
      states += id + " " + v1::JobState_Name(sim.Job(id).state()) + " " +
                sim.Job(id).error().message() + "\n";
    }
  }
  EXPECT_TRUE(ended) << "rule 5: a job neither ended nor progressed\n" << states << sim.history();
  tally->terms += sim.terms();
  for (const std::string& id : ids) tally->epochs += sim.up() ? sim.Job(id).epoch() : 0;
  const std::vector<std::string> violations = sim.Violations();
  EXPECT_TRUE(violations.empty()) << absl::StrJoin(violations, "\n") << "\n" << sim.history();
}

TEST_F(SimulationTest, EveryScheduleOfFaultsKeepsTheRules) {
  if (const char* seed = std::getenv("COXSWAIN_SIM_SEED")) {
    Tally one;
    RunSchedule(std::strtoull(seed, nullptr, 10), &one);
    return;
  }
  constexpr uint64_t kSchedules = 400;
  Tally tally;
  for (uint64_t seed = 1; seed <= kSchedules && !HasFailure(); ++seed) RunSchedule(seed, &tally);
  // The faults did hit: on average every job formed more than one gang.
  EXPECT_GT(tally.epochs, 2 * kSchedules * 5 / 4);
  EXPECT_GT(tally.terms, kSchedules * 5 / 4);
  std::printf("%lu schedules: %lu gangs of %lu jobs, %lu controller starts\n", kSchedules,
              tally.epochs, 2 * kSchedules, tally.terms);
}

}  // namespace
}  // namespace coxswain::sim
