// Settings of the driver: deadlines and waits.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_SETTINGS_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_SETTINGS_H_

#include <chrono>

#include "controller/gang/gang.h"

namespace coxswain::driver {

struct Settings : gang::Settings {
  std::chrono::milliseconds save_timeout{600000};  // a rank that saves gets on with nothing
  std::chrono::milliseconds settle{5000};          // other workers are awaited, for auto
  // After a start of the controller the ranks of a gang that runs have this long to register.
  std::chrono::milliseconds readopt_timeout{20000};
  // The stages after a failure (controller/state/recovery_state.h):
  std::chrono::milliseconds verdict_window{1000};  // errors of other ranks are awaited
  std::chrono::milliseconds dump_timeout{2000};    // ranks tell what they are doing, and are asked
                                                   // to within nine tenths of it
  std::chrono::milliseconds respawn{30000};        // processes that ended start again
  std::chrono::milliseconds keep_workers{600000};  // the gang has its place and its workers
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_SETTINGS_H_
