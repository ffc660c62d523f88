// What is found out before a gang forms: where it resumes, and what it is to compute.
#ifndef COXSWAIN_CONTROLLER_DRIVER_DRAFT_ATTEMPT_H_
#define COXSWAIN_CONTROLLER_DRIVER_DRAFT_ATTEMPT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/room.h"
#include "controller/driver/curriculum.h"
#include "controller/driver/lane_work.h"
#include "controller/driver/output_claim.h"
#include "controller/driver/worker_facts.h"

namespace coxswain::driver {

struct Draft {
  const char* phase = "output";  // then "resume", "plan", "output" for its room
  std::string output_identity;
  std::optional<checkpoint::ResumePoint> resume;
  bool extends = false;  // `resume` is of a recipe of another length
  GangPlan plan;
  std::vector<std::string> warnings;
};

struct DraftInput {
  Files* files = nullptr;
  LaneWork* lane_work = nullptr;
  std::shared_ptr<OutputClaim> output;  // is taken
  checkpoint::ResumeQuery query;
  checkpoint::RoomQuery room;  // but for the bytes of a checkpoint, which the plan tells
  config::JobSpec spec;
  int known_checkpoints = 0;  // committed ones of the job: without any it would begin again
  std::shared_ptr<const Curriculum> curriculum;
  WorkerFacts workers;
};

// In a lane. On failure draft->phase is what failed. NotFound where the job has committed
// checkpoints and none of them is there.
absl::Status DraftAttempt(const DraftInput& input, Draft* draft);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_DRAFT_ATTEMPT_H_
