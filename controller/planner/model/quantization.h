// The format in which a job keeps the linears of its base model, from its keys and from the files.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_QUANTIZATION_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_QUANTIZATION_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// The value of plan::Plan::quantization. A job that only generates uses the format of the files. So
// does any adapter on MXFP4, unless the job asks for another or for none. InvalidArgument: the
// files are quantised otherwise and the job trains these weights, or asks for another format; or
// the model has no experts whose rows are blocks of MXFP4.
absl::StatusOr<Quantization> QuantizationOf(const config::JobSpec& job,
                                            const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_QUANTIZATION_H_
