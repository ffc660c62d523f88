// Decides before a gang forms: which checkpoint it resumes from, and which plan it executes.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_DRAFT_ATTEMPT_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_DRAFT_ATTEMPT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/room.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/preparation/lane_work.h"
#include "controller/driver/preparation/worker_facts.h"
#include "controller/driver/training/curriculum.h"

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
  std::shared_ptr<OutputClaim> output;  // DraftAttempt takes it
  checkpoint::ResumeQuery query;
  checkpoint::RoomQuery room;  // without the bytes of a checkpoint, which the plan gives
  config::JobSpec spec;
  int known_checkpoints = 0;  // committed ones of the job; 0: it begins at step 0
  std::shared_ptr<const Curriculum> curriculum;
  WorkerFacts workers;
};

// Runs in a lane. On failure draft->phase names the failed phase. NotFound when the job has
// committed checkpoints and none of them exists.
absl::Status DraftAttempt(const DraftInput& input, Draft* draft);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_DRAFT_ATTEMPT_H_
