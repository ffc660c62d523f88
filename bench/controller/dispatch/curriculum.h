// What the dispatch bench trains on: every bin of a step has the same documents, so that the fake
// engines of all ranks agree without a collective.
#ifndef COXSWAIN_BENCH_CONTROLLER_DISPATCH_CURRICULUM_H_
#define COXSWAIN_BENCH_CONTROLLER_DISPATCH_CURRICULUM_H_

#include <memory>
#include <string>
#include <vector>

#include "common/data/token_store.h"
#include "controller/driver/training/curriculum.h"

namespace coxswain::bench {

struct Shape {
  int64_t steps = 1;
  int64_t ranks = 1;
  int64_t bins_per_rank = 1;
  int64_t documents_per_bin = 1;
  int64_t document_tokens = 2;

  int64_t tokens_per_rank() const { return bins_per_rank * documents_per_bin * document_tokens; }
};

class DispatchCurriculum : public driver::Curriculum {
 public:
  // Writes its token store into `directory`.
  DispatchCurriculum(const Shape& shape, const std::string& directory);

  const model::ModelConfig& model() const override { return model_; }
  const planner::Recipe* training_recipe() const override { return nullptr; }
  const std::string& recipe_hash() const override { return recipe_hash_; }
  int64_t total_steps() const override { return shape_.steps; }
  int64_t pass_of_step(int64_t) const override { return 0; }
  double passes_after(int64_t) const override { return 0; }
  double learning_rate(int64_t) const override { return 1e-4; }
  std::vector<driver::BinSize> step_bins(int64_t step) const override;
  std::vector<driver::BinSize> eval_bins() const override { return {}; }
  void FillTrain(int64_t step, std::span<const int64_t> ids, driver::BinForm form,
                 v1::Bins* out) const override;
  void FillEval(std::span<const int64_t>, driver::BinForm, v1::Bins*) const override {}
  v1::TokenStores token_stores() const override;
  v1::DatasetSummary summary() const override { return {}; }
  std::vector<std::string> warnings() const override { return {}; }

 private:
  const Shape shape_;
  const model::ModelConfig model_;
  const std::string recipe_hash_;
  std::unique_ptr<data::TokenStore> store_;
};

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_DISPATCH_CURRICULUM_H_
