// A dump of the ranks of a gang at one time, and the reason for it.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/gang/dump_ranks.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::incidents {

enum class Reason {
  kFailure,  // the gang failed, and nothing was ended yet
  kAsked,    // by a user: cox dump
};

inline const char* NameOf(Reason reason) {
  return reason == Reason::kFailure ? "failure" : "asked";
}

struct Incident {
  std::string job = {};
  uint64_t epoch = 0;   // gang number
  int64_t unix_ms = 0;  // milliseconds since 1970
  Reason reason = Reason::kAsked;
  v1::Error error = {};  // of a failure
  std::vector<gang::RankDump> ranks = {};
};

}  // namespace coxswain::incidents

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_
