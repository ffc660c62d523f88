// The checkpoint that a job would go on from under another number of steps, before it is accepted.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_

#include <optional>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/checkpoint_files.h"

namespace coxswain::checkpoint {

// Of output_dir or the path that checkpoint.resume gives; nullopt where the job starts fresh, goes
// on as it was, or names another job, whose checkpoints the store of a controller knows. The errors
// are those of FindResumePoint: FailedPrecondition where what lies there is of another recipe.
absl::StatusOr<std::optional<ResumePoint>> FindExtended(Files* files, const config::JobSpec& job,
                                                        const RecipeName& recipe);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_EXTENDED_H_
