// What the ranks of a gang are doing, by their own account.
#ifndef COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_
#define COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/gang/gang.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::gang {

struct RankDump {
  int rank = 0;
  std::string worker;  // its id
  absl::StatusOr<v1::WorkerDumpResponse> answer = absl::UnknownError("it was not asked");
};

// Asks these ranks, and calls `done` on the loop when each has answered or `timeout` is over for
// it. `ranks` is not empty.
void DumpRanks(WorkerTransport* transport, const Gang& gang, const std::vector<int>& ranks,
               std::chrono::milliseconds timeout, std::function<void(std::vector<RankDump>)> done);

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_
