// Self-verification of the first steps: a step that did not train is an error, never a number.
// See ARCHITECTURE.md, "Self-verification".
//
// That a group stayed as it was says something only where its update should have changed it. An
// update of AdamW is about lr per element. A float32 master keeps it when it is a few ulps of the
// value; a bfloat16 one, rounded stochastically, moves with probability update / ulp, so that of
// many elements many move. Until then, in a long warm-up, a group that has not moved is looked at
// again when the rate has grown.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/verified_groups.h"

namespace coxswain::engine {

// What the ranks together know of a group. Replicas count each.
struct GroupSums {
  double gradient_squares = 0;  // of the reduced gradient, before the update
  double value_squares = 0;     // of what was loaded
  double moved = 0;             // ranks whose values differ from those they loaded
  double loaded_nonzero = 0;    // ranks that loaded a value other than zero
};

// The sums of one rank from its statistics: `loaded` before the first step, `now` after an update.
GroupSums SumsOfRank(const GroupStatistics& loaded, const GroupStatistics& now);

// It says the same on all ranks, given the same sums and updates. FailedPrecondition names group
// and reason. Sums are in the order of the groups, which outlive this object.
class SelfVerification {
 public:
  SelfVerification(const plan::Plan& plan, const std::vector<VerifiedGroup>& groups);

  // True once two gradients have been looked at and every group has moved.
  bool finished() const;
  // True of an update with this rate, > 0, when it is one of the first two, or large enough to
  // judge a group that has not moved yet.
  bool LooksAt(double learning_rate) const;

  // The sums are of reduced gradients, finite. While every B is zero the gradient of A must be
  // exactly zero; by the second step no group's may have stayed zero.
  absl::Status CheckGradients(const std::vector<GroupSums>& sums);

  // Called after an applied update; from the second on each group that should have moved must
  // differ from what was loaded. `clip_factor` was applied to the gradients.
  absl::Status CheckUpdate(const std::vector<GroupSums>& sums, double learning_rate,
                           double clip_factor);
  // Called after an update that was not looked at.
  void CountUpdate(double learning_rate);

 private:
  struct Movement {
    double lr_scale = 1;
    double elements = 0;      // that surely have a gradient
    double all_elements = 0;  // of all ranks: replicas count each
    bool rounded = false;     // stochastically, to bfloat16; else float32
    double ulp = 0;           // of a value of the loaded ones' root mean square
    double per_rate = 0;      // update of an element whose gradient is as large, by learning rate
    double expected = 0;      // rounded: elements that should have moved
    bool had_gradient = false, moved = false;
  };
  void TakeScales(const GroupSums& sums, double clip_factor, Movement* movement) const;
  // Of the next update: elements that should move, at most all.
  static double Moves(const Movement& movement, double learning_rate);
  // Whether the group should have moved once such an update is applied.
  static bool IsDue(const Movement& movement, double learning_rate);

  const std::vector<VerifiedGroup>& groups_;
  const double eps_;
  std::vector<Movement> movements_;  // by group
  int looked_at_ = 0;                // updates
  int64_t updates_ = 0;              // applied, lr > 0
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_H_
