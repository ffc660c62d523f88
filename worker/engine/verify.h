// Self-verification of the first steps: a step that did not train is an error, never a number.
// Source: design.md section 6, "Self-verification".
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/model.h"
#include "worker/engine/parts.h"

namespace coxswain::engine {

// Looks at the first two updates with lr > 0 since Prepare. FailedPrecondition names part and
// reason.
class SelfVerification {
 public:
  // `weights`: the buffer as loaded.
  SelfVerification(const plan::Plan& plan, const ParameterLayout& layout,
                   const std::vector<Part>& parts, const float* weights);

  // Two gradients and two updates have been looked at.
  bool finished() const { return updates_ >= 2; }

  // Sum of squares of each part's reduced gradient, finite, before the update. While every B is
  // zero the gradient of A must be exactly zero; by the second step no part's may have stayed zero.
  absl::Status CheckGradients(const std::vector<double>& sum_squares);

  // After an applied update; after the second each part must differ from what was loaded.
  absl::Status CheckUpdate(const float* weights);

 private:
  uint64_t Digest(const Part& part, const float* weights) const;

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const std::vector<Part>& parts_;
  std::vector<uint64_t> loaded_;  // digest of each part
  std::vector<bool> had_gradient_;
  bool b_is_zero_ = false;  // some B exists and all are zero
  int updates_ = 0;         // applied, lr > 0
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_H_
