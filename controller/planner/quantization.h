// The format in which a job keeps the linears of its base model, from its keys and from the files.
#ifndef COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_
#define COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// The value of plan::Plan::quantization. A job that only generates uses the format of the files.
// InvalidArgument: the files are quantised and the job trains these weights, or asks for another
// format.
absl::StatusOr<std::string> QuantizationOf(const config::JobSpec& job,
                                           const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_QUANTIZATION_H_
