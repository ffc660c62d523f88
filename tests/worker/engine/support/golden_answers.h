// What transformers answers greedily on the golden cases: tests/fixtures/greedy_tokens.json.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_ANSWERS_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::engine {

struct GoldenAnswers {
  std::vector<std::vector<int32_t>> prompts, answers;
};

// Throws std::runtime_error naming the file or case that is missing.
GoldenAnswers LoadGoldenAnswers(const std::string& name);

// The plan with room for `sequences` texts of `length` tokens.
plan::Plan WithGeneration(plan::Plan plan, int64_t sequences, int64_t length);
// The same of a job that trains nothing.
plan::Plan OnlyGenerating(plan::Plan plan, int64_t sequences, int64_t length);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_ANSWERS_H_
