// Prepares output and plan before a gang of an earlier controller continues.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/preparation/lane_work.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/replays.h"
#include "controller/store/store.h"

namespace coxswain::driver {

struct Reentry {
  std::string output_identity;
  GangPlan plan;    // as LaneWork::read_plan
  Origin origin;    // of the newest checkpoint
  Replays replays;  // of the steps that an earlier gang trained and this one has not
};

struct ReentryInput {
  Files* files = nullptr;
  LaneWork* lane_work = nullptr;
  store::History* history = nullptr;
  std::shared_ptr<OutputClaim> output;  // ReenterGang takes it
  config::JobSpec spec;
  std::shared_ptr<const Curriculum> curriculum;
  std::string job;
  std::string plan_bytes;
  int64_t finished_steps = 0;
  std::string newest_checkpoint;  // directory, empty: none was committed
};

// Runs in a lane. Not OK: the gang does not continue.
absl::Status ReenterGang(const ReentryInput& input, Reentry* reentry);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_
