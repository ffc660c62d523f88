// How a job keeps the linears of its base: what it asks for beside what the files hold.
#ifndef COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_
#define COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// plan::Plan::quantization; of a job that only answers, that of the files. InvalidArgument where
// the files are quantised and the job trains them, or asks for another format.
absl::StatusOr<std::string> QuantizationOf(const config::JobSpec& job,
                                           const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_
