#include "worker/supervisor/silence.h"

#include <algorithm>

namespace coxswain::supervisor {

void Silence::BeginTurn(Clock::time_point now) {
  stalled_ = turn_ ? std::max(Clock::duration::zero(), now - *turn_ - longest_turn_)
                   : Clock::duration::zero();
  turn_ = now;
}

bool Silence::TooLong(bool gave_sign, LastSign* last) const {
  if (gave_sign) {
    *last = turn_;
    return false;
  }
  if (!*last || limit_.count() == 0) return false;
  **last += stalled_;
  return *turn_ - **last >= limit_;
}

}  // namespace coxswain::supervisor
