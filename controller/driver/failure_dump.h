// What the ranks of a gang were doing when it failed: the evidence, taken before the abort.
#ifndef COXSWAIN_CONTROLLER_DRIVER_FAILURE_DUMP_H_
#define COXSWAIN_CONTROLLER_DRIVER_FAILURE_DUMP_H_

#include <cstdint>
#include <vector>

#include "controller/gang/dump_ranks.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::driver {

struct FailureDump {
  static constexpr int kMostRanks = 64;  // of a larger gang: the rank that failed, and the first

  uint64_t epoch = 0;
  int64_t unix_ms = 0;
  v1::Error error;
  std::vector<gang::RankDump> ranks;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_FAILURE_DUMP_H_
