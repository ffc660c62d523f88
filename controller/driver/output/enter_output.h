// The first step of a run or an export in the output directory.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_ENTER_OUTPUT_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_ENTER_OUTPUT_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/driver/output/output_claim.h"
#include "controller/runtime/files.h"

namespace coxswain::driver {

// Takes `output`, refuses what CheckReplaceable refuses, and sweeps .staging. Runs on the pool.
absl::Status EnterOutput(Files* files, OutputClaim* output, const config::JobSpec& job);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_ENTER_OUTPUT_H_
