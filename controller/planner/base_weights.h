// The base model of a job as config.json and the weight files have it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// OK for spec.init random. InvalidArgument: a file that is cut short or malformed, a tensor of the
// model that is missing or of another shape (names tensor, file and both shapes); NotFound: no
// weight files. Reads no weights.
absl::Status CheckBaseWeights(const config::JobSpec& job, const model::ModelConfig& model);

// The model of spec.base_model: its config.json, untied where its files hold a head that differs
// (tied_head.h), checked by CheckBaseWeights. Errors of model::ReadModelConfig and of the two.
absl::StatusOr<model::ModelConfig> ReadBaseModel(const config::JobSpec& job,
                                                 std::vector<std::string>* warnings);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_
