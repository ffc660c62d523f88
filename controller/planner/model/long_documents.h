// Warns of documents that have more tokens than the model has positions.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_LONG_DOCUMENTS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_LONG_DOCUMENTS_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/data/prepare/prepare.h"

namespace coxswain::planner {

// The number of positions of the model in job.model_path, scaled by its rotary embedding. 0:
// config.json does not say.
int64_t PositionsOf(const config::JobSpec& job, const model::ModelConfig& model);

// One warning if documents of the training or evaluation set have more tokens than that. It gives
// their number and says what to do. Else empty.
std::vector<std::string> LongDocumentWarnings(const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const data::PreparedData& data);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_LONG_DOCUMENTS_H_
