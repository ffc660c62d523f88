// EXPORTING: from the best intact checkpoint of a job to what its users load.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/deps.h"
#include "controller/driver/records/job_record.h"
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

// Loop thread only.
class JobExport {
 public:
  // `tried` is called with each attempt but those for which another owner had the output directory:
  // these are made again by themselves. `record`, `spec` and `output` outlive it.
  JobExport(const Deps& deps, JobRecord* record, const config::JobSpec* spec, OutputHold* output,
            std::function<void(const ExportAttempt&)> tried)
      : deps_(deps), record_(record), spec_(spec), output_(output), tried_(std::move(tried)) {}

  // In lane kExport. A checkpoint that does not verify is passed over with a warning.
  void Start();
  void Stop() { lifetime_.Reset(); }  // none is tried any more

 private:
  void OnTried(const ExportAttempt& attempt);

  const Deps deps_;
  JobRecord* const record_;
  const config::JobSpec* const spec_;
  OutputHold* const output_;
  const std::function<void(const ExportAttempt&)> tried_;
  bool waits_ = false;  // for the output directory, which is told once
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_
