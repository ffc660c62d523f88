// The vocabulary of a job that adds tokens.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADDED_TOKENS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADDED_TOKENS_H_

#include "absl/status/status.h"
#include "common/model/model_config.h"
#include "controller/data/prepared_data.h"

namespace coxswain::planner {

// Makes the base's config that of the job: tokens that the data was prepared with and the base's
// tokenizer lacks take the rows behind its last, and embedding and head grow by those that are
// missing. InvalidArgument: the base has fewer rows than its tokenizer has tokens, or than a token
// of the data needs.
absl::Status GrowVocabulary(const data::PreparedData& data, model::ModelConfig* model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADDED_TOKENS_H_
