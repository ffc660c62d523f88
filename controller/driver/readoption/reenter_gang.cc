#include "controller/driver/readoption/reenter_gang.h"

#include "common/status_macros.h"
#include "controller/checkpoint/manifest.h"
#include "controller/driver/output/output_claim.h"

namespace coxswain::driver {

absl::Status ReenterGang(const ReentryInput& input, Reentry* reentry) {
  // Where it is not, the output is another file system than the gang's.
  if (!input.newest_checkpoint.empty()) {
    ASSIGN_OR_RETURN(const checkpoint::Manifest newest,
                     checkpoint::ReadManifest(input.files, input.newest_checkpoint));
    reentry->origin = checkpoint::OriginOf(newest, input.job);
  }
  ASSIGN_OR_RETURN(reentry->plan, input.lane_work->read_plan(input.plan_bytes, *input.curriculum));
  RETURN_IF_ERROR(EnterOutput(input.files, input.output.get(), input.spec));
  ASSIGN_OR_RETURN(reentry->output_identity, input.files->Identity(input.spec.output_dir));
  // Without them it costs the comparison, not the gang.
  const auto steps = input.history->Steps(input.job, input.finished_steps);
  if (steps.ok()) reentry->replays = Replays(*steps);
  return absl::OkStatus();
}

}  // namespace coxswain::driver
