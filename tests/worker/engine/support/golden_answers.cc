#include "tests/worker/engine/support/golden_answers.h"

#include <fstream>
#include <stdexcept>

#include "nlohmann/json.hpp"
#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {

GoldenAnswers LoadGoldenAnswers(const std::string& name) {
  const std::string path = support::GoldenFolder("greedy_tokens.json");
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  const nlohmann::json all = nlohmann::json::parse(in);
  if (!all.contains(name)) throw std::runtime_error(path + " lacks " + name);
  GoldenAnswers golden;
  for (const nlohmann::json& one : all.at(name)) {
    golden.prompts.push_back(one.at("prompt").get<std::vector<int32_t>>());
    golden.answers.push_back(one.at("answer").get<std::vector<int32_t>>());
  }
  return golden;
}

plan::Plan WithGeneration(plan::Plan plan, int64_t sequences, int64_t length) {
  plan.generation = {sequences, length};
  Finish(&plan);
  return plan;
}

plan::Plan OnlyGenerating(plan::Plan plan, int64_t sequences, int64_t length) {
  plan.groups.clear();
  for (model::Parameter& parameter : plan.parameters) parameter.group = model::kFrozen;
  plan.recompute = RecomputeLevel::kBlock;
  plan.lm_head_chunk_tokens = sequences;
  return WithGeneration(std::move(plan), sequences, length);
}

}  // namespace coxswain::engine
