// The curriculum of a real job: its recipe over its token stores.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_CURRICULUM_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_CURRICULUM_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/model/model_config.h"
#include "common/plan/document_loss.h"
#include "controller/data/prepare/prepare.h"
#include "controller/driver/training/curriculum.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::driver {

class RecipeCurriculum : public Curriculum {
 public:
  // Looks at every document once: in a lane. `loss`: of the plan. `references`: kept earlier.
  RecipeCurriculum(model::ModelConfig model, data::PreparedData data, planner::Recipe recipe,
                   Questions questions = {}, plan::DocumentLoss loss = {},
                   std::shared_ptr<const ReferenceSums> references = nullptr);

  const planner::Recipe& recipe() const { return recipe_; }
  const data::PreparedData& data() const { return data_; }

  const model::ModelConfig& model() const override { return model_; }
  const planner::Recipe* training_recipe() const override { return &recipe_; }
  const std::string& recipe_hash() const override { return recipe_.hash(); }
  const std::string& recipe_stem() const override { return recipe_.stem(); }
  config::KeyValues recipe_facts() const override { return recipe_.facts(); }
  bool document_loss() const override { return loss_.any(); }
  bool keeps_references() const override { return loss_.any() && loss_.reference == "kept"; }
  bool has_kl() const override { return loss_.has_kl(); }
  bool reference_is_base() const override { return loss_.reference == "base"; }
  std::shared_ptr<const ReferenceSums> references() const override { return references_; }
  int64_t total_steps() const override { return recipe_.total_steps(); }
  int64_t pass_of_step(int64_t step) const override { return recipe_.pass_of_step(step); }
  double passes_after(int64_t finished_steps) const override;
  double learning_rate(int64_t step) const override { return recipe_.learning_rate(step); }
  std::vector<BinSize> step_bins(int64_t step) const override;
  std::vector<BinSize> eval_bins() const override;
  void FillTrain(int64_t step, std::span<const int64_t> ids, BinForm form,
                 v1::Bins* out) const override;
  void FillEval(std::span<const int64_t> ids, BinForm form, v1::Bins* out) const override;
  void FillMismatched(int64_t step, std::span<const int64_t> ids, BinForm form,
                      v1::Bins* out) const override;
  std::vector<int64_t> Documents(int64_t step, std::span<const int64_t> ids,
                                 Side side) const override;
  // At most 8. Documents are cut to 512 tokens where their loss is of targets; those without a
  // target before the cut are passed over.
  std::vector<BinSize> proof_bins() const override { return proof_sizes_; }
  void FillProof(int64_t id, v1::Bins* out) const override;
  bool proof_by_log_probs() const override { return loss_.any() && !loss_.of_scores(); }
  absl::Status Intact() const override;
  v1::TokenStores token_stores() const override;
  const Questions& questions() const override { return questions_; }
  v1::DatasetSummary summary() const override;
  std::vector<std::string> warnings() const override { return data_.warnings; }

 private:
  // Of one bin, in its order.
  std::vector<int64_t> OfSide(std::span<const int64_t> documents, Side side) const;
  std::span<const int64_t> BinDocuments(int64_t step, int64_t id) const;
  const data::TokenStore& proof_store() const {
    return data_.eval != nullptr ? *data_.eval : *data_.train;
  }
  int64_t ProofLength(int64_t document) const;
  void ChooseProof();
  void AddProof(std::span<const int64_t> documents);
  void Fill(int64_t step, std::span<const int64_t> ids, BinForm form, Side side,
            v1::Bins* out) const;

  const model::ModelConfig model_;
  const data::PreparedData data_;
  const planner::Recipe recipe_;
  const Questions questions_;
  const plan::DocumentLoss loss_;
  const std::shared_ptr<const ReferenceSums> references_;
  std::vector<std::vector<BinSize>> train_sizes_;  // by pass and index
  std::vector<BinSize> eval_sizes_;
  std::vector<std::vector<int64_t>> proof_documents_;  // of each record
  std::vector<BinSize> proof_sizes_;
};

// Appends the first tokens of documents of `store`, so many of each as `lengths` has, to `out` as
// bin `id`: token ids, lengths and target bits.
void AppendCut(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents,
               std::span<const int64_t> lengths, v1::Bins* out);

// Appends whole documents of `store` to `out` as bin `id`: token ids, lengths and target bits, or
// their indices.
void AppendBin(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents,
               BinForm form, v1::Bins* out);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_RECIPE_CURRICULUM_H_
