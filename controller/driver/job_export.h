// EXPORTING: from the best intact checkpoint of a job to what its users load.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_EXPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_EXPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/deps.h"
#include "controller/driver/output_claim.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::driver {

struct ExportAttempt {
  absl::StatusOr<ExportedTo> result;
  int64_t step = 0;      // of the checkpoint
  bool damaged = false;  // all of them, or there is none: waiting mends none
  std::vector<std::string> warnings;
};

// Where to export from, best first: the newest, or with early stopping the lowest evaluation.
std::vector<const v1::CheckpointInfo*> CheckpointsToExport(const v1::Job& job,
                                                           const config::JobSpec& spec);

// Exports in lane kExport and calls `done` on the loop. A checkpoint that does not verify is passed
// over with a warning. Unavailable: another owner has the output directory.
void ExportJob(const Deps& deps, const v1::Job& job, const config::JobSpec& spec,
               std::shared_ptr<OutputClaim> output, std::function<void(const ExportAttempt&)> done);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_EXPORT_H_
