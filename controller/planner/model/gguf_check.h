// Whether what `export.gguf` asks for can be written, before a job begins.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_GGUF_CHECK_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_GGUF_CHECK_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "common/plan/plan.h"

namespace coxswain::planner {

// InvalidArgument names the key, what of the model or of its tokenizer no GGUF is written of, and
// what one is written of. Reads the tokenizer where a model is asked for. `model`: as the base has
// it, before its vocabulary grows.
absl::Status CheckGguf(const config::JobSpec& job, const model::ModelConfig& model);

// InvalidArgument names the first tensor of the job's adapter that no GGUF holds.
absl::Status CheckGgufAdapter(const config::JobSpec& job, const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_GGUF_CHECK_H_
