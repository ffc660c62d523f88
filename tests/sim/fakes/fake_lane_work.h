// What lanes compute for jobs, made up: a curriculum, a plan, artifacts that are a checkpoint's
// first shard.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAKE_LANE_WORK_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAKE_LANE_WORK_H_

#include "controller/driver/preparation/lane_work.h"
#include "tests/sim/fakes/synthetic_curriculum.h"

namespace coxswain::sim {

struct FakeLaneWork {
  SyntheticShape shape;  // its steps are the job's
  driver::BinWork work;  // of every plan
  Files* files = nullptr;
  const absl::Status* prepare_error = nullptr;  // what preparing data answers unless it is OK
  const absl::Status* push_error = nullptr;     // what a push answers unless it is OK
  int64_t* exports = nullptr;                   // counts them
};

driver::LaneWork MakeFakeLaneWork(const FakeLaneWork& fake);

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAKE_LANE_WORK_H_
