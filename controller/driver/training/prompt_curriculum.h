// The curriculum of a job that trains nothing: its questions alone.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROMPT_CURRICULUM_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROMPT_CURRICULUM_H_

#include <span>
#include <string>
#include <vector>

#include "common/model/model_config.h"
#include "controller/data/documents/prompts.h"
#include "controller/driver/training/curriculum.h"

namespace coxswain::driver {

class PromptCurriculum : public Curriculum {
 public:
  PromptCurriculum(model::ModelConfig model, Questions questions, std::string hash)
      : model_(std::move(model)), questions_(std::move(questions)), hash_(std::move(hash)) {}

  const model::ModelConfig& model() const override { return model_; }
  const planner::Recipe* training_recipe() const override { return nullptr; }
  const std::string& recipe_hash() const override { return hash_; }
  int64_t total_steps() const override { return 0; }
  int64_t pass_of_step(int64_t /*step*/) const override { return 0; }
  double passes_after(int64_t /*finished_steps*/) const override { return 0; }
  double learning_rate(int64_t /*step*/) const override { return 0; }
  std::vector<BinSize> step_bins(int64_t /*step*/) const override { return {}; }
  std::vector<BinSize> eval_bins() const override { return {}; }
  void FillTrain(int64_t, std::span<const int64_t>, BinForm, v1::Bins*) const override {}
  void FillEval(std::span<const int64_t>, BinForm, v1::Bins*) const override {}
  v1::TokenStores token_stores() const override { return {}; }
  const Questions& questions() const override { return questions_; }
  v1::DatasetSummary summary() const override { return {}; }
  std::vector<std::string> warnings() const override { return {}; }

 private:
  const model::ModelConfig model_;
  const Questions questions_;
  const std::string hash_;  // 32 bytes
};

// As commands carry it. `most_tokens` and sampling are those of job.generate.
Questions QuestionsOf(const config::JobSpec& job, data::PreparedPrompts prompts);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROMPT_CURRICULUM_H_
