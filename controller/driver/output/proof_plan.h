// Which questions prove an export, within its time, and what the answers say of it. No I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_PROOF_PLAN_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_PROOF_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/driver/training/proof_asking.h"
#include "controller/folders/staged_export.h"

namespace coxswain::driver {

struct ProofCost {
  double seconds = 0;         // it may take
  double load_seconds = 0;    // of a whole model, about; 0: not known
  double record_seconds = 0;  // of a record under some weights, likewise
};

struct ProofInput {
  StagedExport staged;
  std::string checkpoint_dir;     // that it was made of
  bool holds_checkpoint = false;  // the gang's weights are those of that checkpoint
  std::vector<BinSize> records;
  ProofCost cost;
};

class ProofPlan {
 public:
  // Folders for which there is no time, or which cannot be compared, get a reason and no questions.
  // A model costs its loading, and that of what it is held against. An adapter is loaded at once.
  explicit ProofPlan(ProofInput input);

  // DataLoss as Judge: our reader refused the settings of a folder.
  absl::Status CheckSettings() const;
  bool asks() const { return questions_.records > 0; }
  const ProofQuestions& questions() const { return questions_; }

  // Writes what the answers say into the folders. `cut`: why some are missing. `seconds`: that they
  // took. DataLoss: a folder was refused by the reader, or a record's difference is beyond the
  // bound; the message names folder, record, both values and the bound.
  //
  // An adapter, and a model whose files hold what was trained, have the bits of the trained state.
  // A model whose files round has those of the checkpoint so rounded: its bound is the difference
  // of that to the trained state. The bound of a merge with rounding r is the sum of
  //   8 sqrt(8 / n) s    To first order a record's loss moves by the sum over weights of gradient x
  //                      weight x relative change. Of independent roundings of mean 0 and at most r
  //                      the variance of the sum is at most that under changes of exactly +r or -r
  //                      by fair coins. These are made, and the root mean square over the n records
  //                      of what they do estimates the standard deviation s. For n = 8 that is 4 s
  //                      and a factor of 2 for the estimate, whose square is chi-square distributed
  //                      with n degrees of freedom; fewer records estimate worse.
  //   2 p |base|         What rounding takes back of the adapter, the part p of it, is not
  //                      independent of the gradient. To first order it takes back p times what the
  //                      adapter does to the record's loss: its difference to that of the base. 2
  //                      for what differs among weights.
  //   2^-21 of the loss  which is added up from float32.
  absl::Status Judge(const ProofAnswers& answers, const std::string& cut, double seconds);
  const StagedExport& staged() const { return input_.staged; }

 private:
  absl::Status RefusedError(const StagedFolder& folder, const std::string& why) const;
  int64_t MostRecords(bool models) const;
  void Ask(bool models);
  size_t Add(v1::Load load);  // its place among the questions
  void AskOfModel(const StagedFolder& folder);
  void SkipOthers(const std::string& reason);
  bool Answered(const ProofAnswers& answers, std::optional<size_t> weights) const;
  double BoundOfMerge(const ProofAnswers& answers, const StagedFolder& folder, size_t record) const;
  absl::Status JudgeFolder(const ProofAnswers& answers, StagedFolder* folder, size_t weights);
  absl::Status Beyond(const StagedFolder& folder, size_t record, double is, double was,
                      double bound) const;
  double PerTarget(double loss, size_t record) const;

  ProofInput input_;
  ProofQuestions questions_;
  std::vector<std::optional<size_t>> weights_of_;  // by folder: its place among the questions
  // Those of the checkpoint rounded as the model is, of the base alone, and of the trained state
  // with every weight changed by the rounding of a merge.
  std::optional<size_t> rounded_, base_, shaken_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_PROOF_PLAN_H_
