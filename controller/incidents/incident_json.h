// An incident as it is kept and shown: one JSON object.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_JSON_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_JSON_H_

#include <nlohmann/json.hpp>

#include "controller/incidents/incident.h"

namespace coxswain::incidents {

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

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_JSON_H_
