// Handles a model whose config.json ties head and embedding although its files hold another head.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_TIED_HEAD_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_TIED_HEAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// Unties `model` and warns, as transformers does, if the files hold both matrices with different
// values. Equal matrices stay tied. Reads the two matrices if both exist, else only headers. Errors
// come from reading the files.
absl::Status UntieDifferingHead(const config::JobSpec& job, model::ModelConfig* model,
                                std::vector<std::string>* warnings);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_TIED_HEAD_H_
