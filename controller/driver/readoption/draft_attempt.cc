#include "controller/driver/readoption/draft_attempt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/driver/output/output_claim.h"
#include "controller/folders/output_folders.h"

namespace coxswain::driver {
namespace {

absl::Status CheckpointsGone(const std::string& output_dir, int known) {
  return absl::NotFoundError(absl::StrCat(
      "checkpoint.output_dir ", output_dir, " holds no readable checkpoint, but the job has ",
      "committed ones (", known, " are kept): is its file system mounted? Bring them back, or ",
      "cancel the job and submit it again to start over"));
}

// Where a job saved nothing yet it is refused what somebody put in its way; later it goes on, and
// waits when it comes to replace that.
absl::StatusOr<OutputFindings> LookForStrangers(const DraftInput& input) {
  if (input.known_checkpoints > 0) return OutputFindings();
  ASSIGN_OR_RETURN(OutputFindings there, LookAtOutput(input.files, input.spec));
  RETURN_IF_ERROR(there.Refusal(input.spec.output_dir));
  return there;
}

// A job loses nothing of the one that it goes on from, which the event Resuming names.
void WarnOfOthers(const DraftInput& input, OutputFindings there, Draft* draft) {
  if (draft->resume) there.by_job.erase(draft->resume->manifest.job);
  for (std::string& warning : there.Warnings(input.spec.output_dir, input.query.job)) {
    draft->warnings.push_back(std::move(warning));
  }
}

}  // namespace

absl::Status DraftAttempt(const DraftInput& input, Draft* draft) {
  RETURN_IF_ERROR(EnterOutput(input.files, input.output.get(), input.spec));
  ASSIGN_OR_RETURN(OutputFindings there, LookForStrangers(input));
  ASSIGN_OR_RETURN(draft->output_identity, input.files->Identity(input.spec.output_dir));
  draft->phase = "resume";
  ASSIGN_OR_RETURN(draft->resume,
                   checkpoint::FindResumePoint(input.files, input.query, &draft->warnings));
  WarnOfOthers(input, std::move(there), draft);
  if (!draft->resume && input.known_checkpoints > 0) {
    return CheckpointsGone(input.query.output_dir, input.known_checkpoints);
  }
  draft->extends = draft->resume && checkpoint::Extends(*draft->resume, input.query);
  draft->phase = "plan";
  ASSIGN_OR_RETURN(
      draft->plan,
      input.lane_work->plan({.job = input.query.job,
                             .spec = &input.spec,
                             .curriculum = input.curriculum.get(),
                             .workers = input.workers,
                             .extended = draft->extends ? &draft->resume->manifest : nullptr}));
  draft->phase = "output";
  checkpoint::RoomQuery room = input.room;
  room.bytes = draft->plan.checkpoint_bytes;
  std::string warning;
  RETURN_IF_ERROR(checkpoint::CheckRoomOfJob(input.files, room, &warning));
  if (!warning.empty()) draft->warnings.push_back(std::move(warning));
  return absl::OkStatus();
}

}  // namespace coxswain::driver
