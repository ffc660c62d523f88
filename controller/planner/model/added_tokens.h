// What the tokenizer of a job says of its model.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_ADDED_TOKENS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_ADDED_TOKENS_H_

#include "absl/status/status.h"
#include "common/model/model_config.h"
#include "controller/data/prepared_data.h"

namespace coxswain::planner {

// Turns the config of the base model into that of the job. Tokens of the data that the base's
// tokenizer lacks take the rows after its last token; embedding and head grow by the missing rows.
// With a head of scores the tokenizer's padding goes before that of config.json, as TRL has it.
// InvalidArgument: the base has fewer rows than its tokenizer has tokens, or than a token of the
// data needs.
absl::Status GrowVocabulary(const data::PreparedData& data, model::ModelConfig* model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_ADDED_TOKENS_H_
