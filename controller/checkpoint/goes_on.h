// Whether a job can go on from what lies in its folder, before it is accepted.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_

#include "absl/status/status.h"
#include "common/config/job_parser.h"
#include "controller/files.h"

namespace coxswain::checkpoint {

// InvalidArgument, by RefusalByKeys, where the job can go on from none of the checkpoints in its
// output_dir, or not from the path that checkpoint.resume gives. `job` has no errors.
absl::Status CheckGoesOn(Files* files, const config::ParsedJob& job);

// CheckGoesOn as an error of the key that leads to the checkpoint.
void AddGoesOnErrors(Files* files, config::ParsedJob* job);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_
