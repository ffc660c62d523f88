// The job as trackers know it.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_RUN_H_
#define COXSWAIN_CONTROLLER_TRACKERS_RUN_H_

#include <cstdint>
#include <string>

namespace coxswain::trackers {

struct Run {
  std::string id;  // of the job: letters, digits, "-" and "_"
  std::string name;
  int64_t created_unix_ms = 0;
};

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_RUN_H_
