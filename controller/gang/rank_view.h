// The controller's own records of a rank, whatever that rank says.
#ifndef COXSWAIN_CONTROLLER_GANG_RANK_VIEW_H_
#define COXSWAIN_CONTROLLER_GANG_RANK_VIEW_H_

#include <cstdint>
#include <string>

#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::gang {

struct RankView {
  std::string phase = {};       // of its worker: "RUNNING"; "gone": it is not registered any more
  bool suspect = false;         // its heartbeat is late
  double beat_age_seconds = 0;  // of its newest heartbeat
  v1::HeartbeatRequest beat = {};  // that one; empty when it was of no command of this gang
  uint64_t answered_seq = 0;       // newest command that it has answered, 0: none
  double silent_seconds = 0;       // since that answer, or since the gang runs
  int in_flight = 0;               // commands that were sent to all, and some rank has not answered
  int credits = 0;                 // so many at most, as of now
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_RANK_VIEW_H_
