// The training data of a job, step by step: the numbers of the recipe and the tokens behind them.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_CURRICULUM_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_CURRICULUM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/schema/recipe_keys.h"
#include "common/model/model_config.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::planner {
class Recipe;
}  // namespace coxswain::planner

namespace coxswain::driver {

struct BinSize {
  int64_t id = 0;      // global bin index, unique in a pass
  int64_t tokens = 0;  // >= 1
  int64_t targets = 0;
  int64_t units = 0;           // pairs or records of a loss of documents; 0: the loss is of targets
  int64_t nll_rows = 0;        // rows of the nll term of such a loss
  double attention_flops = 0;  // forward and backward: quadratic in the lengths of its documents
};

// The questions of a job to its model.
struct Questions {
  std::vector<std::string> texts;         // as the job gives them
  std::vector<std::vector<int32_t>> ids;  // tokens of each text; empty: nothing is asked
  std::vector<int32_t> ends;              // tokens behind which an answer ends
  int64_t most_tokens = 0;                // of an answer, >= 1
  v1::Sampling sampling;
  // The text of an answer, or of its beginning: valid UTF-8, U+FFFD at its end where a character is
  // cut.
  std::function<std::string(std::span<const int32_t> ids)> decode;
};

// Log-probabilities of documents under the reference of a preference job, summed over the targets
// of each: nats, by document of the token store; NaN: no step reads it.
struct ReferenceSums {
  std::vector<double> train, held_out;
};

// Which documents of a bin: those whose loss is taken, or, of records, the completions of other
// records, whose log-probabilities make the KL term of a step.
enum class Side { kTrained, kMismatched };

// How bins travel: with their tokens, or as indices of documents in the token stores.
enum class BinForm { kTokens, kDocumentIds };

// Immutable once made, hence shared between the loop and its lanes. RecipeCurriculum in production,
// PromptCurriculum for a job that only generates, a small synthetic one in the simulator. A step's
// bins are a pure function of the step.
class Curriculum {
 public:
  virtual ~Curriculum() = default;

  virtual const model::ModelConfig& model() const = 0;
  virtual const planner::Recipe* training_recipe() const = 0;  // null: nothing is trained
  virtual const std::string& recipe_hash() const = 0;          // 32 bytes
  // 32 bytes, of all recipes that differ from it in their length alone; by default of none.
  virtual const std::string& recipe_stem() const { return recipe_hash(); }
  // What of the recipe comes from files and workers, by the names that Recipe::facts gives; by
  // default nothing.
  virtual config::KeyValues recipe_facts() const { return {}; }
  // Whether the loss is a function of documents; by default it is of targets.
  virtual bool document_loss() const { return false; }
  // Whether that loss has a KL term, which is measured right before each step and evaluation, and
  // whether its reference is the model without adapters.
  virtual bool has_kl() const { return false; }
  virtual bool reference_is_base() const { return false; }
  // Whether that loss compares with log-probabilities of the start, which are kept.
  virtual bool keeps_references() const { return false; }
  // Those that were kept when the data was prepared; null: none were.
  virtual std::shared_ptr<const ReferenceSums> references() const { return nullptr; }
  virtual int64_t total_steps() const = 0;
  virtual int64_t pass_of_step(int64_t step) const = 0;
  virtual double passes_after(int64_t finished_steps) const = 0;  // e.g. 1.5: half of the second
  virtual double learning_rate(int64_t step) const = 0;
  virtual std::vector<BinSize> step_bins(int64_t step) const = 0;  // the global batch, ordered
  virtual std::vector<BinSize> eval_bins() const = 0;              // empty: nothing is evaluated
  // Appends bins of step_bins(step), or of eval_bins(), by their ids to `out`: the documents whose
  // loss is taken, with their labels where they have some.
  virtual void FillTrain(int64_t step, std::span<const int64_t> ids, BinForm form,
                         v1::Bins* out) const = 0;
  virtual void FillEval(std::span<const int64_t> ids, BinForm form, v1::Bins* out) const = 0;
  // Likewise the other documents of these bins, for log-probabilities. `step` < 0: of eval_bins().
  virtual void FillMismatched(int64_t step, std::span<const int64_t> ids, BinForm form,
                              v1::Bins* out) const {}
  // The documents of the token store that these bins hold, in their order. `step` likewise.
  virtual std::vector<int64_t> Documents(int64_t step, std::span<const int64_t> ids,
                                         Side side) const {
    return {};
  }
  // Records by which an export is compared with the trained state, each a bin: held-out ones, else
  // of the first pass. By default there are none.
  virtual std::vector<BinSize> proof_bins() const { return {}; }
  // Appends one of them, with its tokens.
  virtual void FillProof(int64_t id, v1::Bins* out) const {}
  // Whether LOG_PROBS tells of them; else EVAL does.
  virtual bool proof_by_log_probs() const { return false; }
  // DataLoss when some bins that were read so far may differ from the files. A curriculum without
  // files is always OK.
  virtual absl::Status Intact() const { return absl::OkStatus(); }
  // The files that kDocumentIds refers to; `train` empty: kTokens is the only form.
  virtual v1::TokenStores token_stores() const = 0;
  // By default nothing is asked.
  virtual const Questions& questions() const {
    static const Questions kNone;
    return kNone;
  }
  virtual v1::DatasetSummary summary() const = 0;
  virtual std::vector<std::string> warnings() const = 0;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_CURRICULUM_H_
