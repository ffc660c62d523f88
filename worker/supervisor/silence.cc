#include "worker/supervisor/silence.h"

#include <algorithm>

namespace coxswain::supervisor {
namespace {

constexpr std::chrono::seconds kLongStall{1}, kAfterStall{5};

}  // namespace

void Silence::BeginTurn(Clock::time_point now) {
  stalled_ = turn_ ? std::max(Clock::duration::zero(), now - *turn_ - longest_turn_)
                   : Clock::duration::zero();
  turn_ = now;
  if (stalled_ >= kLongStall) stall_end_ = now;
}

bool Silence::JustStalled() const { return stall_end_ && *turn_ - *stall_end_ < kAfterStall; }

bool Silence::TooLong(bool gave_sign, LastSign* last) const {
  if (gave_sign) {
    *last = {.at = *turn_, .given = true};
    return false;
  }
  if (limit_.count() == 0) return false;
  last->at += stalled_;
  return *turn_ - last->at >= (last->given ? limit_ : kLoading * limit_);
}

}  // namespace coxswain::supervisor
