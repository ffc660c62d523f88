// Before a job is accepted, checks that it can continue from the checkpoints in its folder.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/config/parser/job_parser.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/runtime/files.h"

namespace coxswain::checkpoint {

// InvalidArgument, with the text of RefusalByKeys, when the job can continue from no checkpoint in
// output_dir, or not from the path in checkpoint.resume. `job` must have no errors.
absl::Status CheckGoesOn(Files* files, const config::ParsedJob& job);

// The effective job of the newest checkpoint that CheckGoesOn looks at and that can be read; empty:
// there is none, or a release wrote it that kept no job.
std::string JobThere(Files* files, const config::JobSpec& job);

// Adds the error of CheckGoesOn to the key that names the checkpoint (output_dir or resume).
void AddGoesOnErrors(Files* files, config::ParsedJob* job);

// Before a job is accepted, finds the checkpoint that it would continue with another number of
// steps.

// Looks in output_dir, or at the path in checkpoint.resume. nullopt: the job starts fresh, or
// continues with the same number of steps, or checkpoint.resume names another job, whose
// checkpoints only a controller's store knows. Errors as of FindResumePoint: FailedPrecondition for
// checkpoints of another recipe.
absl::StatusOr<std::optional<ResumePoint>> FindExtended(Files* files, const config::JobSpec& job,
                                                        const RecipeName& recipe);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_GOES_ON_H_
