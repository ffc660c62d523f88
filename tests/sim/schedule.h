// One schedule of the simulator: a cluster, jobs and faults, all drawn from a seed.
#ifndef COXSWAIN_TESTS_SIM_SCHEDULE_H_
#define COXSWAIN_TESTS_SIM_SCHEDULE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/coverage.h"
#include "tests/sim/faults.h"
#include "tests/sim/simulation.h"

namespace coxswain::sim {

enum class ScheduleKind {
  kShort,       // 2 to 4 workers, two or three jobs of 12 to 16 steps
  kLong,        // 4 to 8 workers, a job of 200 to 240 steps on most of them and a short one
  kGentle,      // as short, with harmless faults only: no gang may end
  kController,  // as short, and nothing but the controller fails: no step is trained twice
};

struct Schedule {
  uint64_t seed = 0;
  ScheduleKind kind = ScheduleKind::kShort;
  Simulation::Options options;
  struct Job {
    JobShape shape;
    int64_t at_ms = 0;  // when it is submitted
    bool may_be_cancelled = false;
    int lost_answers = 0;  // of Submit
  };
  std::vector<Job> jobs;
  int64_t horizon_ms = 0;  // of the faults
  std::vector<PlannedFault> faults;
};

// One schedule in ten is long, one in twenty gentle, in one in twenty the controller alone fails.
Schedule DrawSchedule(uint64_t seed);

struct Played {
  std::vector<std::string> violations;  // empty is good
  std::string transcript;
  int64_t checkpoints = 0;  // committed
  uint64_t gangs = 0;
};

// Plays it until every job has ended, or a rule is broken. `kept`: the faults to play, by their
// place in the schedule; empty: all.
Played Play(Schedule schedule, const std::set<size_t>& kept, Coverage* coverage);

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_SCHEDULE_H_
