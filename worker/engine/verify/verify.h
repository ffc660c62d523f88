// Self-verification of the first steps: a step that did not train is an error, never a number. See
// ARCHITECTURE.md, "Self-verification". verified_tensors.h has the rules for gradients of zero.
//
// An unchanged tensor is a failure only if its update should have changed it. The optimizer's row
// gives the size of an update (plan::UpdateScale), for AdamW about lr per element. A float32 master
// changes when the update is a few ulps of the value. A bfloat16 master, rounded stochastically,
// changes with probability update / ulp per element, so of many elements many change. When the rate
// is still too small, in a long warm-up, an unchanged tensor is checked again after the rate has
// grown.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_VERIFY_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/verify/verified_tensors.h"

namespace coxswain::engine {

// Sums over all ranks for one tensor. Every replica counts. A rank that holds nothing of the tensor
// adds zeros.
struct TensorSums {
  double gradient_squares = 0;  // of the reduced gradient, before the update
  double value_squares = 0;     // of the loaded values
  double moved = 0;             // ranks whose values differ from those they loaded
  double loaded_nonzero = 0;    // ranks that loaded a value other than zero
};

struct StepSums {
  std::vector<TensorSums> tensors;  // in the order of the verified tensors
  double attending_targets = 0;     // AttendingTargets of the batch (verified_step.h)
};

struct AppliedUpdate {
  double learning_rate = 0;  // base rate, > 0
  double clip_factor = 1;    // clip factor of the gradients
};

// All ranks come to the same result, given the same sums and updates. FailedPrecondition names the
// tensors and their fault. Plan and tensors must outlive this object.
class SelfVerification {
 public:
  SelfVerification(const plan::Plan& plan, const std::vector<VerifiedTensor>& tensors);

  // True once two updates have been checked and every tensor has moved and had a gradient.
  bool finished() const;
  // True when an update with this rate, > 0, must be checked: it is one of the first two, a tensor
  // still has had no gradient, or the update is large enough to judge a tensor that has not moved
  // yet.
  bool LooksAt(double learning_rate) const;

  // The sums are of reduced, finite gradients. Each tensor must have a gradient by the second batch
  // that reaches it. A factor must have none while the other factor is zero.
  absl::Status CheckGradients(const StepSums& sums);

  // Tensors that this update should have moved and that, by these sums, never have.
  std::vector<size_t> Unmoved(const StepSums& sums, const AppliedUpdate& update) const;
  // Call it after an applied update. From the second update on, each tensor that should have moved
  // must differ from its loaded values.
  absl::Status CheckUpdate(const StepSums& sums, const AppliedUpdate& update);
  // Call it after an update that was not checked.
  void CountUpdate(double learning_rate);

 private:
  struct Tensor {
    double lr_scale = 1;
    double elements = 0;      // number that surely have a gradient
    double all_elements = 0;  // of all ranks: replicas count each
    bool rounded = false;     // stochastically, to bfloat16; else float32
    double ulp = 0;           // ulp of the root mean square of the loaded values
    double per_rate = 0;      // update, per learning rate, of an element with the typical gradient
    double expected = 0;      // rounded: elements that should have moved
    int reached = 0;          // checked batches that could give it a gradient
    bool zero = false;        // all of it is still zero, by its loaded values
    bool had_gradient = false, moved = false;
  };
  void TakeScales(const TensorSums& sums, double clip_factor, Tensor* tensor) const;
  // Elements that should move in the next update, at most all.
  static double Moves(const Tensor& tensor, double learning_rate);
  // True when the tensor should have moved once such an update is applied.
  static bool IsDue(const Tensor& tensor, double learning_rate);
  bool AwaitsGradient(size_t t) const {
    return verified_[t].needs_gradient && !tensors_[t].had_gradient;
  }
  bool FactorIsZero(size_t t) const {
    return verified_[t].zero_factor.has_value() && tensors_[*verified_[t].zero_factor].zero;
  }
  absl::Status CheckZeroFactors(const StepSums& sums) const;

  const plan::Plan& plan_;
  const std::vector<VerifiedTensor>& verified_;
  std::vector<Tensor> tensors_;  // likewise
  int looked_at_ = 0;            // updates
  int64_t updates_ = 0;          // applied, lr > 0
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_VERIFY_H_
