// Settings of running gangs: deadlines and waits.
#ifndef COXSWAIN_CONTROLLER_GANG_SETTINGS_H_
#define COXSWAIN_CONTROLLER_GANG_SETTINGS_H_

#include <chrono>

namespace coxswain::gang {

struct Settings {
  // Commands in flight per worker, 1..8; more of them, up to 8, while they are less work than
  // `ahead`, so that no rank waits where the loop hangs in its store. One is never more.
  int credits = 2;
  std::chrono::milliseconds ahead{1500};
  std::chrono::milliseconds prepare_timeout{600000};  // a rank that loads gets on with nothing
  std::chrono::milliseconds connect_timeout{120000};
  // In the first two steps: no answer, and no rank gets on.
  std::chrono::milliseconds first_step_timeout{300000};
  std::chrono::milliseconds hang_floor{30000};       // later: max(this, 5 x median step)
  std::chrono::milliseconds collective_floor{7000};  // in one: max(this, 2 x median step)
  std::chrono::milliseconds drain_floor{30000};      // drain: max(this, 5 x median step)
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_SETTINGS_H_
