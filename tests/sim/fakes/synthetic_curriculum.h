// A curriculum of made-up bins: a pure function of the step; commands carry no tokens.
#ifndef COXSWAIN_TESTS_SIM_FAKES_SYNTHETIC_CURRICULUM_H_
#define COXSWAIN_TESTS_SIM_FAKES_SYNTHETIC_CURRICULUM_H_

#include <span>
#include <string>
#include <vector>

#include "common/files/hash.h"
#include "controller/driver/training/curriculum.h"

namespace coxswain::sim {

struct SyntheticShape {
  int64_t steps = 12;
  int64_t bins_per_step = 4;
  int64_t eval_bins = 3;
  int64_t answer_tokens = 0;  // of each prompt at most; 0: nothing is asked
  int prompts = 2;            // at least
  int64_t proof_records = 0;  // by which an export is verified; 0: it is not
};

// The bins of a step, ids ascending.
inline std::vector<driver::BinSize> StepBins(int64_t step, int64_t bins_per_step) {
  std::vector<driver::BinSize> bins;
  for (int64_t i = 0; i < bins_per_step; ++i) {
    const int64_t id = step * bins_per_step + i;
    bins.push_back({.id = id, .tokens = 100 + (id * 37) % 50, .targets = 60 + id % 7});
  }
  return bins;
}

class SyntheticCurriculum : public driver::Curriculum {
 public:
  explicit SyntheticCurriculum(SyntheticShape shape)
      : shape_(shape), recipe_hash_(Sha256("recipe" + std::to_string(shape.steps))) {
    if (shape.answer_tokens == 0) return;
    questions_.texts = {"first", "second"};
    questions_.ids = {{1}, {2, 3}};
    for (int i = 2; i < shape.prompts; ++i) {
      questions_.texts.push_back("prompt " + std::to_string(i));
      questions_.ids.push_back({i + 1});
    }
    questions_.ends = {0};
    questions_.most_tokens = shape.answer_tokens;
    questions_.decode = [](std::span<const int32_t> ids) {
      std::string text;
      for (const int32_t id : ids) text += std::to_string(id) + " ";
      return text;
    };
  }

  const model::ModelConfig& model() const override { return model_; }
  const planner::Recipe* training_recipe() const override { return nullptr; }
  const std::string& recipe_hash() const override { return recipe_hash_; }
  const std::string& recipe_stem() const override { return recipe_stem_; }
  int64_t total_steps() const override { return shape_.steps; }
  int64_t pass_of_step(int64_t) const override { return 0; }
  double passes_after(int64_t finished_steps) const override {
    return static_cast<double>(finished_steps) / static_cast<double>(shape_.steps);
  }
  double learning_rate(int64_t step) const override { return 1e-3 / static_cast<double>(step + 1); }
  std::vector<driver::BinSize> step_bins(int64_t step) const override {
    return StepBins(step, shape_.bins_per_step);
  }
  std::vector<driver::BinSize> eval_bins() const override {
    std::vector<driver::BinSize> bins;
    for (int64_t i = 0; i < shape_.eval_bins; ++i) {
      bins.push_back({.id = i, .tokens = 80, .targets = 40});
    }
    return bins;
  }
  void FillTrain(int64_t, std::span<const int64_t> ids, driver::BinForm,
                 v1::Bins* out) const override {
    for (const int64_t id : ids) Fill(id, 60 + id % 7, out);
  }
  void FillEval(std::span<const int64_t> ids, driver::BinForm, v1::Bins* out) const override {
    for (const int64_t id : ids) Fill(id, 40, out);
  }
  std::vector<driver::BinSize> proof_bins() const override {
    std::vector<driver::BinSize> bins;
    for (int64_t i = 0; i < shape_.proof_records; ++i) {
      bins.push_back({.id = i, .tokens = 30, .targets = 20});
    }
    return bins;
  }
  void FillProof(int64_t id, v1::Bins* out) const override { Fill(id, 20, out); }
  v1::TokenStores token_stores() const override { return {}; }
  const driver::Questions& questions() const override { return questions_; }
  v1::DatasetSummary summary() const override {
    v1::DatasetSummary summary;
    summary.set_documents(shape_.steps * shape_.bins_per_step);
    summary.set_eval_documents(2 * shape_.eval_bins);
    return summary;
  }
  std::vector<std::string> warnings() const override { return {}; }

 private:
  void Fill(int64_t id, int64_t targets, v1::Bins* out) const {
    out->add_bin_ids(id);
    out->add_documents_per_bin(1);
    out->add_document_lengths(static_cast<int32_t>(targets));
  }

  const SyntheticShape shape_;
  const model::ModelConfig model_;
  const std::string recipe_hash_, recipe_stem_ = Sha256("recipe");
  driver::Questions questions_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_SYNTHETIC_CURRICULUM_H_
