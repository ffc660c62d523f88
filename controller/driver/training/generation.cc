#include "controller/driver/training/generation.h"

#include <utility>

namespace coxswain::driver {

Generation::Generation(std::shared_ptr<const Curriculum> curriculum, Asking::Told told,
                       ToldSoFar told_so_far, int64_t pieces)
    : curriculum_(std::move(curriculum)),
      asking_(&curriculum_->questions(), std::move(told)),
      told_so_far_(std::move(told_so_far)),
      pieces_(pieces),
      all_asked_(curriculum_->questions().ids.empty()) {}

std::optional<gang::Order> Generation::Next() {
  if (!all_asked_ && !cut_) {
    std::optional<gang::Order> order = asking_.Ask(/*step=*/0);
    if (order) ++asked_;
    all_asked_ = asking_.AllAsked() || asked_ == pieces_;
    if (order) {
      ++in_flight_;
      return order;
    }
  }
  if (in_flight_ > 0) return std::nullopt;
  return gang::StopOrder(/*step=*/0);
}

std::optional<v1::Error> Generation::Take(const gang::InFlight& command) {
  --in_flight_;
  return asking_.Take(command);
}

void Generation::Drain(bool with_checkpoint) { cut_ = cut_ || !with_checkpoint; }

}  // namespace coxswain::driver
