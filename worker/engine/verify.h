// Self-verification of the first steps: a step that did not train is an error, never a number.
// Source: design.md section 6, "Self-verification".
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/buffers.h"
#include "worker/engine/parts.h"

namespace coxswain::engine {

// Looks at the first two updates with lr > 0 since Prepare. FailedPrecondition names part and
// reason. The numbers of the parts come from part_numbers.h, in the order of the parts.
class SelfVerification {
 public:
  // `loaded`: checksum and all_zero of the values before the first step.
  SelfVerification(const std::vector<Part>& parts, std::vector<PartNumbers> loaded);

  // Two gradients and two updates have been looked at.
  bool finished() const { return updates_ >= 2; }

  // Reduced gradients, finite. While every B is zero the gradient of A must be exactly zero; by the
  // second step no part's may have stayed zero.
  absl::Status CheckGradients(const std::vector<PartNumbers>& numbers);

  // After an applied update; after the second each part must differ from what was loaded.
  absl::Status CheckUpdate(const std::vector<PartNumbers>& numbers);

 private:
  const std::vector<Part>& parts_;
  const std::vector<PartNumbers> loaded_;
  std::vector<bool> had_gradient_;
  bool b_is_zero_ = false;  // some B exists and all are zero
  int updates_ = 0;         // applied, lr > 0
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_H_
