// Measures the KL term of a loss of records with the weights right before a step or an evaluation:
// the mean over the global batch of log pi(y'|x) - log pi_ref(y'|x), at least 0, y' the completion
// of another record. Source: TRL KTOTrainer._compute_loss.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_KL_ASKING_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_KL_ASKING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "controller/driver/training/batch.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/reference_asking.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// Loop thread only. No clock, no I/O.
class KlAsking {
 public:
  // Both outlive it.
  KlAsking(const Curriculum* curriculum, const ReferenceAsking* references)
      : curriculum_(curriculum), references_(references) {}

  // The term of these bins, which are those of step `step`, or with `step` < 0 of the evaluation,
  // is known; without such a term it always is.
  bool Knows(int64_t step) const { return !curriculum_->has_kl() || known_ == step; }
  double kl() const { return kl_; }
  void Forget() { known_.reset(); }  // the weights have changed

  // The next order for the term of `parts`, the bins of each command; nothing: all is asked.
  std::optional<gang::Order> Ask(int64_t step, std::span<const std::span<const BinSize>> parts,
                                 const ReferenceAsking::DealOf& deal);
  // Of the oldest order that was not taken.
  absl::Status Take(const gang::InFlight& command);
  bool InProgress() const { return asked_ > 0; }
  // A term is known, or in the making, that no step or evaluation has taken yet.
  bool Holds() const { return InProgress() || known_.has_value(); }

 private:
  struct Sent {
    bool of_reference = false;
    std::shared_ptr<const Batch> batch;
  };

  void Add(double sign, std::span<const double> sums);
  size_t CommandsPerPart() const { return curriculum_->reference_is_base() ? 2 : 1; }

  const Curriculum* const curriculum_;
  const ReferenceAsking* const references_;
  std::deque<Sent> in_flight_;
  int64_t step_ = -1;    // that is asked for
  size_t asked_ = 0;     // commands of it; 0: none
  size_t commands_ = 0;  // of it in all
  double difference_ = 0;
  int64_t documents_ = 0;
  std::shared_ptr<const Batch> dealt_;  // of the part that is asked for
  std::optional<int64_t> known_;
  double kl_ = 0;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_KL_ASKING_H_
