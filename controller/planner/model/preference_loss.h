// The loss of documents that a job's method and its section ask for.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_PREFERENCE_LOSS_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_PREFERENCE_LOSS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/document_loss.h"

namespace coxswain::planner {

// That of a preference, or of scores (score_head.h); without terms under another method. The
// reference of a job that starts a fresh adapter is the base, which is what its policy was at step
// 0.
plan::DocumentLoss DocumentLossOf(const config::JobSpec& job);

// Unimplemented names the key whose value cannot be trained yet.
absl::Status CheckPreferenceLoss(const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_PREFERENCE_LOSS_H_
