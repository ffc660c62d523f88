#include "controller/driver/output/enter_output.h"

#include "common/status_macros.h"
#include "controller/checkpoint/staging.h"
#include "controller/folders/output_place.h"

namespace coxswain::driver {

absl::Status EnterOutput(Files* files, OutputClaim* output, const config::JobSpec& job) {
  RETURN_IF_ERROR(output->Take());
  RETURN_IF_ERROR(CheckReplaceable(files, job));
  return output->WhileHeld([&] { return checkpoint::SweepStaging(files, job.output_dir); });
}

}  // namespace coxswain::driver
