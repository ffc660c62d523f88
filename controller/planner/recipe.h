// The recipe: everything that fixes a job's numbers, whatever the number of workers. A step's bins
// are a pure function of (recipe, step).
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"
#include "controller/data/packing.h"
#include "controller/data/prepare.h"

namespace coxswain::planner {

// Bin `index` of pass `pass`.
struct BinRef {
  int64_t pass = 0;
  int64_t index = 0;
};

class Recipe {
 public:
  // Packs the passes and fixes the global batch (in bins): spec.train.global_batch_size, else
  // micro_batch_size x gradient_accumulation_steps x workers. Steps are exact.
  static absl::StatusOr<Recipe> Make(const config::JobSpec& job, const model::ModelConfig& model,
                                     const data::PreparedData& data);

  int64_t total_steps() const { return total_steps_; }
  int64_t global_batch_bins() const { return global_batch_bins_; }
  int64_t bins_per_pass(int64_t pass) const;
  int64_t pass_of_step(int64_t step) const;
  // The global batch of a step as an ordered list; the last one of a pass may be shorter.
  std::vector<BinRef> step_bins(int64_t step) const;
  std::span<const int64_t> documents(BinRef bin) const;  // document ids, packing order
  // lr(s) = lr (s+1)/W for s < W, then the decay to min_lr_ratio x lr. Source: design.md section 6.
  double learning_rate(int64_t step) const;
  // Bins of the evaluation set, packed once in file order; empty when there is none.
  const data::Bins& eval_bins() const { return eval_bins_; }
  double packing_efficiency() const;                     // first pass, filled slots / slots
  const std::string& hash() const { return hash_; }      // 32 bytes

 private:
  int64_t total_steps_ = 0;
  int64_t global_batch_bins_ = 0;
  std::vector<data::Bins> passes_;
  std::vector<int64_t> first_step_of_pass_;
  data::Bins eval_bins_;
  config::JobSpec job_;
  std::string hash_;
  double packing_efficiency_ = 0.0;
};

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_H_
