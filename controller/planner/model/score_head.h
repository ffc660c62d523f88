// The head of scores of reward models and classifiers: whether the base has it, and what it is
// trained by.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_SCORE_HEAD_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_SCORE_HEAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "common/plan/document_loss.h"

namespace coxswain::planner {

// Puts the head that the job's method asks for in the place of that of tokens, and warns where
// neither the base nor the adapter that the job begins from has it, so that it is new.
// InvalidArgument: the base has a head of scores and the method wants one of tokens, another number
// of scores, or other labels; the adapter's has another size; transformers has no class for it.
absl::Status PutScoreHead(const config::JobSpec& job, model::ModelConfig* model,
                          std::vector<std::string>* warnings);

// Without terms under a method that has no scores.
plan::DocumentLoss ScoreLoss(const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_SCORE_HEAD_H_
