// Joins the answers of all ranks to one TRAIN command into a committed step. Pure.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_COMMIT_STEP_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_COMMIT_STEP_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "controller/driver/training/batch.h"
#include "controller/gang/command_window.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::driver {

struct StepResult {
  int64_t step = 0;                               // 0-based
  double loss = 0;                                // sum over the denominator of the global batch
  double grad_norm = 0;                           // before clipping
  int64_t tokens = 0;                             // all ranks
  bool applied = false;                           // the update was applied, on every rank
  std::optional<v1::ExpertUse> experts = {};      // of a model with experts
  std::optional<v1::Preference> preference = {};  // of a loss of documents: means
  uint64_t loss_bits = 0;                         // IEEE-754 of loss
  uint64_t gnorm_bits = 0;
};

// Internal, naming ranks and both values: a rank trained other bins than it was sent, or ranks
// disagree about the grad norm, the global loss or whether the update was applied.
absl::StatusOr<StepResult> CommitStep(const Batch& batch, const gang::InFlight& command);

struct EvalSum {
  double loss_sum = 0;
  int64_t denominator = 0;  // of the loss
  int64_t targets = 0;
  int64_t correct_targets = 0;
  std::optional<v1::Preference> preference = {};  // of a loss of documents: sums
};

// The means of sums over documents. A side without documents has 0.
v1::Preference MeansOf(const v1::Preference& sums);

// Adds one EVAL command's answers, in rank order. Internal as CommitStep for other bins.
absl::Status AddEval(const Batch& batch, const gang::InFlight& command, EvalSum* sum);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_COMMIT_STEP_H_
