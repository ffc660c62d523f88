// Which recorded steps the replay of a gang must reproduce bit by bit, and whether it does.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_REPLAYS_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_REPLAYS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/driver/training/commit_step.h"
#include "controller/gang/gang.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// True when the plans differ at most in links and predictions, from which nothing is computed.
bool SameArithmetic(plan::Plan a, const plan::Plan& b);

// The GEMM table of the newest epoch that had one; empty: none did.
std::string LastGemmTable(const std::vector<store::EpochRow>& epochs);

// The epoch had the fingerprint, the world size, the GEMM table and the arithmetic of `gang`. Its
// plan is read from `store`; one that is not there or not readable is another.
bool MustAgree(const store::EpochRow& epoch, const gang::Gang& gang, store::Store* store);

// Steps that earlier gangs of a job trained beyond the checkpoint from which the next one begins.
class Replays {
 public:
  Replays() = default;
  explicit Replays(const std::vector<store::StepRow>& recorded);

  // Forgets those that `gang` need not reproduce, and returns how many these were. Without the
  // epochs of the store that is all of them.
  size_t KeepComparable(const gang::Gang& gang, store::Store* store);

  // The step as it was recorded; null: it is done for the first time, or not compared.
  const store::StepRow* Find(int64_t step) const;

 private:
  std::map<int64_t, store::StepRow> recorded_;  // by step
};

// Empty unless the replayed step has other bits than `before`; then both values.
std::string Divergence(const StepResult& result, uint64_t epoch, const store::StepRow& before);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_REPLAYS_H_
