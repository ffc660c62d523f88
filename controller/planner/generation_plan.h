// The plan of a job that trains nothing and answers prompts.
#ifndef COXSWAIN_CONTROLLER_PLANNER_GENERATION_PLAN_H_
#define COXSWAIN_CONTROLLER_PLANNER_GENERATION_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/planner/planner.h"

namespace coxswain::planner {

// Texts to be answered: how many, and the tokens of the longest.
struct PromptExtents {
  int64_t texts = 0;
  int64_t longest = 0;
};

// What a cache of keys and values must hold: every prompt with the longest answer that the job
// allows, at most sequence_len tokens. InvalidArgument: a prompt leaves no room there.
absl::StatusOr<plan::Generation> GenerationOf(const config::JobSpec& job,
                                              const PromptExtents& prompts);

// Weights, the cache, and the activations of one block for the longest text: prompts are read one
// by one. Nothing is trained: no gradients, no states, no backward. One worker.
// ResourceExhausted names need and limit.
absl::StatusOr<PlannedJob> MakeGenerationPlan(const std::string& job_id, const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const PromptExtents& prompts,
                                              const WorkerResources& resources);
// Of the last token of the longest text, forward alone; `plan` is one of MakeGenerationPlan.
double GenerationFlopsPerToken(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_GENERATION_PLAN_H_
