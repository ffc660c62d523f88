// Self-verification of the first steps: a step that did not train is an error, never a number.
// See ARCHITECTURE.md, "Self-verification". verified_tensors.h has the rules of what may be zero.
//
// That a tensor stayed as it was says something only where its update should have changed it. The
// optimizer's row says how large an update is (plan::UpdateScale), of AdamW about lr per element. A
// float32 master keeps it when it is a few ulps of the value; a bfloat16 one, rounded
// stochastically, moves with probability update / ulp, so that of many elements many move. Until
// then, in a long warm-up, a tensor that has not moved is looked at again when the rate has grown.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/verified_tensors.h"

namespace coxswain::engine {

// What the ranks together know of a tensor. Replicas count each; a rank that holds nothing of it
// adds zeros.
struct TensorSums {
  double gradient_squares = 0;  // of the reduced gradient, before the update
  double value_squares = 0;     // of what was loaded
  double moved = 0;             // ranks whose values differ from those they loaded
  double loaded_nonzero = 0;    // ranks that loaded a value other than zero
};

struct StepSums {
  std::vector<TensorSums> tensors;  // in the order of the verified tensors
  double attending_targets = 0;     // of the batch (verified_step.h)
};

struct AppliedUpdate {
  double learning_rate = 0;  // base rate, > 0
  double clip_factor = 1;    // of the gradients
};

// It says the same on all ranks, given the same sums and updates. FailedPrecondition names the
// tensors and what is wrong with them. Plan and tensors outlive this object.
class SelfVerification {
 public:
  SelfVerification(const plan::Plan& plan, const std::vector<VerifiedTensor>& tensors);

  // True once two updates have been looked at, every tensor has moved and had a gradient.
  bool finished() const;
  // True of an update with this rate, > 0, when it is one of the first two, when a tensor still
  // waits for what must give it a gradient, or when the update is large enough to judge a tensor
  // that has not moved yet.
  bool LooksAt(double learning_rate) const;

  // The sums are of reduced gradients, finite. Each tensor must have had one in the second batch
  // that reaches it, and a factor none while the other one is zero.
  absl::Status CheckGradients(const StepSums& sums);

  // Tensors that this update should have moved and that, by these sums, never have.
  std::vector<size_t> Unmoved(const StepSums& sums, const AppliedUpdate& update) const;
  // Called after an applied update; from the second on each tensor that should have moved must
  // differ from what was loaded.
  absl::Status CheckUpdate(const StepSums& sums, const AppliedUpdate& update);
  // Called after an update that was not looked at.
  void CountUpdate(double learning_rate);

 private:
  struct Tensor {
    double lr_scale = 1;
    double elements = 0;      // that surely have a gradient
    double all_elements = 0;  // of all ranks: replicas count each
    bool rounded = false;     // stochastically, to bfloat16; else float32
    double ulp = 0;           // of a value of the loaded ones' root mean square
    double per_rate = 0;      // update of an element whose gradient is as large, by learning rate
    double expected = 0;      // rounded: elements that should have moved
    int reached = 0;          // batches looked at that could give it a gradient
    bool zero = false;        // all of it still is, by what was loaded
    bool had_gradient = false, moved = false;
  };
  void TakeScales(const TensorSums& sums, double clip_factor, Tensor* tensor) const;
  // Of the next update: elements that should move, at most all.
  static double Moves(const Tensor& tensor, double learning_rate);
  // Whether the tensor should have moved once such an update is applied.
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

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_H_
