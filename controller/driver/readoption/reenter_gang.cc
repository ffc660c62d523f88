#include "controller/driver/readoption/reenter_gang.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/output/output_claim.h"

namespace coxswain::driver {
namespace {

// What cannot be read costs its row, not the gang.
std::vector<checkpoint::Manifest> UnknownCheckpoints(const ReentryInput& input) {
  std::vector<checkpoint::Manifest> unknown;
  const auto found = checkpoint::CheckpointsNewestFirst(input.files, input.spec.output_dir);
  if (!found.ok()) return unknown;
  for (const std::string& directory : *found) {
    const auto& known = input.checkpoints;
    if (std::find(known.begin(), known.end(), directory) != known.end()) continue;
    absl::StatusOr<checkpoint::Manifest> manifest =
        checkpoint::ReadManifest(input.files, directory);
    const bool own = manifest.ok() && manifest->job == input.job && manifest->epoch == input.epoch;
    if (own) unknown.push_back(*std::move(manifest));
  }
  std::reverse(unknown.begin(), unknown.end());
  return unknown;
}

}  // namespace

absl::Status ReenterGang(const ReentryInput& input, Reentry* reentry) {
  reentry->unknown_checkpoints = UnknownCheckpoints(input);
  if (!reentry->unknown_checkpoints.empty()) {
    reentry->origin = checkpoint::OriginOf(reentry->unknown_checkpoints.back(), input.job);
  } else if (!input.checkpoints.empty()) {
    // Where it is not, the output is another file system than the gang's.
    ASSIGN_OR_RETURN(const checkpoint::Manifest newest,
                     checkpoint::ReadManifest(input.files, input.checkpoints.back()));
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
