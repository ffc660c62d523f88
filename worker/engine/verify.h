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

// What the ranks together know of a part.
struct PartSums {
  double gradient_squares = 0;  // of the reduced gradient, before the update
  double moved = 0;             // ranks whose values differ from those they loaded
  double loaded_nonzero = 0;    // ranks that loaded a value other than zero
};

// Of one rank: `loaded` before the first step, `now` after an update.
PartSums PartOfRank(const PartNumbers& loaded, const PartNumbers& now);

// Looks at the first two updates with lr > 0 since Prepare. FailedPrecondition names part and
// reason. Sums are in the order of the parts.
class SelfVerification {
 public:
  explicit SelfVerification(const std::vector<Part>& parts);

  // Two gradients and two updates have been looked at.
  bool finished() const { return updates_ >= 2; }

  // Reduced gradients, finite. While every B is zero the gradient of A must be exactly zero; by the
  // second step no part's may have stayed zero.
  absl::Status CheckGradients(const std::vector<PartSums>& sums);

  // After an applied update; after the second each part must differ from what was loaded.
  absl::Status CheckUpdate(const std::vector<PartSums>& sums);

 private:
  const std::vector<Part>& parts_;
  std::vector<bool> had_gradient_;
  int updates_ = 0;  // applied, lr > 0
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_H_
