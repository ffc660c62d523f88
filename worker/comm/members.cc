#include "worker/comm/members.h"

#include "absl/strings/str_cat.h"

namespace coxswain::comm {

absl::Status CheckConfig(const GroupConfig& config) {
  if (config.world_size < 1 || config.rank < 0 || config.rank >= config.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", config.rank, " of world size ", config.world_size, ": expected 0 <= rank < size"));
  }
  if (config.shard < 1 || config.world_size % config.shard != 0) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", config.shard, " of world size ",
                                                   config.world_size,
                                                   ": expected a divisor of the size"));
  }
  return absl::OkStatus();
}

Members MembersOf(const GroupConfig& config, Communicator comm) {
  const int replica = config.rank / config.shard, shard = config.rank % config.shard;
  const int replicas = config.world_size / config.shard;
  Members members;
  switch (comm) {
    case Communicator::kWorld:
      for (int r = 0; r < config.world_size; ++r) members.ranks.push_back(r);
      members.index = config.rank;
      break;
    case Communicator::kShard:
      for (int s = 0; s < config.shard; ++s) members.ranks.push_back(replica * config.shard + s);
      members.index = shard;
      break;
    case Communicator::kReplicate:
      for (int r = 0; r < replicas; ++r) members.ranks.push_back(r * config.shard + shard);
      members.index = replica;
      break;
  }
  return members;
}

const char* NameOf(Communicator comm) {
  switch (comm) {
    case Communicator::kWorld:
      return "world";
    case Communicator::kShard:
      return "shard";
    case Communicator::kReplicate:
      return "replicate";
  }
  return "";
}

std::string CallName(uint64_t ordinal, const std::string& operation, const GroupConfig& config) {
  return absl::StrCat("collective #", ordinal, " (", operation, "), rank ", config.rank, " of ",
                      config.world_size);
}

std::string OperationName(const char* operation, int64_t n, const char* type, Communicator comm) {
  return absl::StrCat(operation, " of ", n, " ", type, " over ", NameOf(comm));
}

}  // namespace coxswain::comm
