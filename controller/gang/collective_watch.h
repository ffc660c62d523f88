// Which rank keeps the others waiting, from what heartbeats say of collectives. A rank that hangs
// may have a healthy heartbeat, and those it keeps waiting report nothing until they are released.
#ifndef COXSWAIN_CONTROLLER_GANG_COLLECTIVE_WATCH_H_
#define COXSWAIN_CONTROLLER_GANG_COLLECTIVE_WATCH_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "controller/gang/gang.h"
#include "controller/scheduler/registry.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::gang {

// The last heartbeat of each rank in the gang's epoch; empty where there is none.
using RankBeats = std::vector<v1::HeartbeatRequest>;
RankBeats BeatsOf(const Gang& gang, const scheduler::Registry& registry);

struct Suspect {
  int rank = -1;  // -1: every rank is in the collective
  std::string message;
};

// Some rank has been in one collective for longer than `limit`: the rank that has come least far.
std::optional<Suspect> FindSuspect(const RankBeats& beats, std::chrono::milliseconds limit);

// "; collectives: rank 0 in #12 (all_reduce of 7 float32 over world) for 900 ms, rank 1 finished
// #11",
// "" when no rank has been in one.
std::string DescribeCollectives(const RankBeats& beats);

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_COLLECTIVE_WATCH_H_
