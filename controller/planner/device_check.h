// Checks that a device can run a job at all. Memory is not considered.
#ifndef COXSWAIN_CONTROLLER_PLANNER_DEVICE_CHECK_H_
#define COXSWAIN_CONTROLLER_PLANNER_DEVICE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// `compute_capability`: x 10 (90: sm_90), 0 when no worker is known. InvalidArgument or
// Unimplemented names the key, or the dimension of the model, and the supported values.
absl::Status CheckDevice(const config::JobSpec& job, const model::ModelConfig& model,
                         int32_t compute_capability);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_DEVICE_CHECK_H_
