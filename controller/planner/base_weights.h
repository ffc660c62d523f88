// Whether the weight files of a job hold the model, from their headers alone.
#ifndef COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// OK for spec.init random. InvalidArgument: a file that is cut short or malformed, a tensor of the
// model that is missing or of another shape (names tensor, file and both shapes); NotFound: no
// weight files. Reads no weights.
absl::Status CheckBaseWeights(const config::JobSpec& job, const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_BASE_WEIGHTS_H_
