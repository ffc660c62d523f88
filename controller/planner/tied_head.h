// A model whose config.json ties head and embedding while its files hold a head that differs.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIED_HEAD_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIED_HEAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// Unties `model` where its files hold both matrices with other values, and warns, as transformers
// does; equal ones stay tied. Reads the two matrices where both are there, else headers only. The
// errors are those of the files.
absl::Status UntieDifferingHead(const config::JobSpec& job, model::ModelConfig* model,
                                std::vector<std::string>* warnings);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIED_HEAD_H_
