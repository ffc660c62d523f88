// Reads and checks the base model of a job: config.json and the weight files.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_BASE_WEIGHTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_BASE_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// Checks the weight files without reading weights. OK for spec.init random. InvalidArgument: a file
// is cut short or malformed, or a tensor is missing or has another shape; names tensor, file and
// both shapes. NotFound: no weight files.
absl::Status CheckBaseWeights(const config::JobSpec& job, const model::ModelConfig& model);

// The model of spec.base_model: reads config.json, unties the head if the files hold another one
// (tied_head.h), and calls CheckBaseWeights. Returns the errors of these and of PutScoreHead.
absl::StatusOr<model::ModelConfig> ReadBaseModel(const config::JobSpec& job,
                                                 std::vector<std::string>* warnings);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_BASE_WEIGHTS_H_
