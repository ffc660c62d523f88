// Which ranks of the world a communicator has.
#ifndef COXSWAIN_WORKER_COMM_MEMBERS_H_
#define COXSWAIN_WORKER_COMM_MEMBERS_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

constexpr std::array<Communicator, 3> kCommunicators = {Communicator::kWorld, Communicator::kShard,
                                                        Communicator::kReplicate};

struct Members {
  std::vector<int> ranks;  // of the world, in the order of the communicator
  int index = 0;           // of this rank among them

  int size() const { return static_cast<int>(ranks.size()); }
};

// InvalidArgument naming the values of a rank outside the world or a shard that does not divide it.
absl::Status CheckConfig(const GroupConfig& config);

Members MembersOf(const GroupConfig& config, Communicator comm);

const char* NameOf(Communicator comm);  // "world", "shard", "replicate"

// A call is named "collective #3 (all_reduce of 7 float32 over shard), rank 1 of 4".
std::string CallName(uint64_t ordinal, const std::string& operation, const GroupConfig& config);
// Says which ranks have equal keys: "0*2,1*2" when the first two have one key, the next two
// another.
std::string GroupsOf(const std::vector<std::string>& key_of_rank);

// An operation is named "all_reduce of 7 float32 over shard".
std::string OperationName(const char* operation, int64_t n, const char* type, Communicator comm);
int64_t OperationBytes(const std::string& name);  // of an operation so named; 0: it is no such name

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_MEMBERS_H_
