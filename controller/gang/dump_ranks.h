// Asks what ranks are doing: the ranks, their supervisors, and the controller's own records.
#ifndef COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_
#define COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/gang/gang.h"
#include "controller/gang/gang_session.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::gang {

struct RankDump {
  int rank = 0;
  std::string worker = {};  // its id
  std::string host = {};
  RankView view = {};  // when the dump began
  absl::StatusOr<v1::WorkerDumpResponse> answer = absl::UnknownError("it was not asked");
  absl::StatusOr<v1::StacksResponse> stacks = absl::UnknownError("nobody was asked");
};

// Bytes of stacks of all ranks together, and of one.
inline constexpr int64_t kMostStacksBytes = 6 << 20, kMostRankStacksBytes = 256 << 10;

// Asks these ranks and their supervisors, and calls `done` on the loop when each has answered or
// `timeout` is over for it. `ranks` is not empty.
void DumpRanks(WorkerTransport* transport, const GangSession& session,
               const std::vector<int>& ranks, std::chrono::milliseconds timeout,
               std::function<void(std::vector<RankDump>)> done);

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_DUMP_RANKS_H_
