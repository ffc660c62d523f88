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

// Prompts to answer: their number, and the tokens of the longest.
struct PromptExtents {
  int64_t texts = 0;
  int64_t longest = 0;
};

// The extents of the cache of keys and values. It holds every prompt with the longest answer that
// the job allows, at most sequence_len tokens. InvalidArgument: a prompt leaves no room for an
// answer.
absl::StatusOr<plan::Generation> GenerationOf(const config::JobSpec& job,
                                              const PromptExtents& prompts);

// A plan for one worker with weights, the cache, and the activations of one block for the longest
// prompt, because prompts are read one by one. It has no gradients, no states and no backward.
// ResourceExhausted names need and limit.
absl::StatusOr<PlannedJob> MakeGenerationPlan(const std::string& job_id, const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const PromptExtents& prompts,
                                              const WorkerResources& resources);
// FLOPs of the forward for the last token of the longest text. `plan` comes from
// MakeGenerationPlan.
double GenerationFlopsPerToken(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_GENERATION_PLAN_H_
