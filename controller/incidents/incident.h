// A dump of the ranks of a gang at one time, and the reason for it.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

// An incident as it is kept and shown: one JSON object.

// Most bytes of the ranks' own accounts together. Beyond that, the oldest commands are dropped.
inline constexpr size_t kMostDumpBytes = 2 << 20;
inline constexpr size_t kMostGroups = 32, kMostGroupBytes = 16 << 10;

// Keys: job, epoch, time_unix_ms, reason ("failure" | "asked"), error ("" unless it was a failure);
// ranks: of each rank, worker, host, controller (what it is seen to do), dump (its own account) or
// error, process (what /proc tells), stacks or stacks_error; groups: ranks and stacks
// (controller/failure/stack_groups.h); finding: ranks, why, advice (odd_ranks.h); explanation:
// explain_incident.h. At most about 10 MiB, however many ranks there are. It parses what workers
// sent, so it is for a lane.
nlohmann::json IncidentJson(const Incident& incident);

}  // namespace coxswain::incidents

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_H_
