// Before a job is accepted, finds the checkpoint that it would continue with another number of
// steps.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_

#include <optional>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/checkpoint_files.h"

namespace coxswain::checkpoint {

// Looks in output_dir, or at the path in checkpoint.resume. nullopt: the job starts fresh, or
// continues with the same number of steps, or checkpoint.resume names another job, whose
// checkpoints only a controller's store knows. Errors as of FindResumePoint: FailedPrecondition for
// checkpoints of another recipe.
absl::StatusOr<std::optional<ResumePoint>> FindExtended(Files* files, const config::JobSpec& job,
                                                        const RecipeName& recipe);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_
