// The recipe: everything that fixes a job's numbers, independent of the number of workers. A step's
// bins are a pure function of (recipe, step).
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/config/schema/recipe_keys.h"
#include "common/model/model_config.h"
#include "controller/data/early_end.h"
#include "controller/data/packing/packing.h"
#include "controller/data/prepare/prepare.h"
#include "controller/planner/recipe/learning_rate.h"

namespace coxswain::planner {

// Bin `index` of pass `pass`.
struct BinRef {
  int64_t pass = 0;
  int64_t index = 0;
  bool operator==(const BinRef&) const = default;
};

class Recipe {
 public:
  // Packs the passes and fixes the global batch, in bins: spec.train.global_batch_size, else
  // micro_batch_size (auto: 1) x gradient_accumulation_steps x workers. The number of steps is
  // exact. With a fractional num_epochs the last pass ends early, rounded up to a step. max_steps
  // may need several passes and may end inside one. Units of documents are packed as one and lie in
  // one bin, in order. InvalidArgument: the batch is too small for the
  // workers, a document is longer than sequence_len, or all passes have more than 2^31 documents
  // together. NotFound: no weight files. Cancelled.
  static absl::StatusOr<Recipe> Make(const config::JobSpec& job, const model::ModelConfig& model,
                                     const data::PreparedData& data,
                                     const data::Cancelled& cancelled = {});

  int64_t total_steps() const { return first_step_of_pass_.back(); }
  int64_t global_batch_bins() const { return global_batch_bins_; }
  int64_t passes() const { return static_cast<int64_t>(passes_.size()); }
  int64_t bins_per_pass(int64_t pass) const { return passes_[static_cast<size_t>(pass)].size(); }
  const data::Bins& bins(int64_t pass) const { return passes_[static_cast<size_t>(pass)]; }
  int64_t pass_of_step(int64_t step) const;  // O(log passes)
  int64_t first_step_of_pass(int64_t pass) const {
    return first_step_of_pass_[static_cast<size_t>(pass)];
  }
  // That read every document once; a shorter job has fewer in its only pass.
  int64_t whole_pass_steps() const {
    return (bins_per_pass(0) + global_batch_bins_ - 1) / global_batch_bins_;
  }
  // The global batch of a step as an ordered list; the last one of a pass may be shorter.
  std::vector<BinRef> step_bins(int64_t step) const;
  // Document ids of a bin, packing order.
  std::span<const int64_t> documents(BinRef bin) const {
    return passes_[static_cast<size_t>(bin.pass)].bin(bin.index);
  }
  // lr(s) = lr (s+1)/W for s < W, then the schedule of learning_rate.h.
  double learning_rate(int64_t step) const { return learning_rate_.At(step); }
  const LearningRate& schedule() const { return learning_rate_; }
  // Bins of the evaluation set, packed once in file order; empty when there is none.
  const data::Bins& eval_bins() const { return eval_bins_; }
  int64_t train_tokens() const { return train_tokens_; }  // of all steps
  int64_t eval_tokens() const { return eval_tokens_; }    // of one evaluation
  // Length of a training token's document, averaged over the tokens.
  int64_t attention_span() const { return attention_span_; }
  double single_document_bins() const;  // first pass, share of the bins that hold one document
  // First pass: share of the slots that stay empty in bins that hold the most documents allowed.
  double slots_lost_to_most_documents() const { return slots_lost_; }
  double packing_efficiency() const { return packing_efficiency_; }  // first pass, filled / slots
  // File of FindWeights; empty: random initialisation.
  const std::string& weights() const { return weights_; }
  const std::string& hash() const { return hash_; }  // 32 bytes
  const std::string& stem() const { return stem_; }  // 32 bytes, RecipeStem
  // The parts of the hash that come from files and workers, for people: the global batch under
  // train.global_batch_size, and "contents of base_model" (datasets, lora.init_from) with the first
  // 12 digits of a SHA-256.
  const config::KeyValues& facts() const { return facts_; }

 private:
  // of_unit: data::PreparedData::documents_per_unit.
  absl::Status PackPasses(const config::JobSpec& job, std::span<const int32_t> lengths,
                          int64_t of_unit, const data::Cancelled& cancelled);
  absl::Status PackEvaluation(const config::JobSpec& job, const data::TokenStore& store,
                              int64_t of_unit);
  absl::Status CountTokens(std::span<const int32_t> lengths, int64_t of_unit,
                           const config::JobSpec& job, const data::Cancelled& cancelled);

  int64_t global_batch_bins_ = 0;
  std::vector<data::Bins> passes_;
  std::vector<int64_t> first_step_of_pass_ = {0};  // one entry more than passes: the end
  data::Bins eval_bins_;
  LearningRate learning_rate_;
  int64_t train_tokens_ = 0, eval_tokens_ = 0, attention_span_ = 0;
  double packing_efficiency_ = 0.0, slots_lost_ = 0;
  std::string weights_, hash_, stem_;
  config::KeyValues facts_;
};

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_RECIPE_H_
