// Prepares output and plan before a gang of an earlier controller continues.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/manifest.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/preparation/lane_work.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/replays.h"
#include "controller/store/store.h"

namespace coxswain::driver {

struct Reentry {
  std::string output_identity;
  GangPlan plan;  // as LaneWork::read_plan
  Origin origin;  // of the newest checkpoint
  // Committed by this gang and not known, oldest first: under a controller whose records are lost.
  std::vector<checkpoint::Manifest> unknown_checkpoints;
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
  uint64_t epoch = 0;
  std::vector<std::string> checkpoints;  // directories that are known, the newest last
};

// Runs in a lane. Not OK: the gang does not continue.
absl::Status ReenterGang(const ReentryInput& input, Reentry* reentry);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_REENTER_GANG_H_
