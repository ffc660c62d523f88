// Documents that are longer than what the model was made for.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LONG_DOCUMENTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_LONG_DOCUMENTS_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/data/prepare.h"

namespace coxswain::planner {

// Positions of the model in job.model_path, scaled by its rotation; 0: its config.json does not
// say.
int64_t PositionsOf(const config::JobSpec& job, const model::ModelConfig& model);

// One warning where documents of the training or evaluation set have more tokens than that, with
// how many do and what to do; else none.
std::vector<std::string> LongDocumentWarnings(const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const data::PreparedData& data);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LONG_DOCUMENTS_H_
