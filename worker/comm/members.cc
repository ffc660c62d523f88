#include "worker/comm/members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

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

std::string GroupsOf(const std::vector<std::string>& key_of_rank) {
  std::vector<std::string> keys;               // in the order of their first rank
  std::vector<std::pair<size_t, int>> groups;  // key and how many ranks have it, one by one
  for (const std::string& key : key_of_rank) {
    const auto known = std::find(keys.begin(), keys.end(), key);
    const auto group = static_cast<size_t>(known - keys.begin());
    if (known == keys.end()) keys.push_back(key);
    if (groups.empty() || groups.back().first != group) groups.emplace_back(group, 0);
    ++groups.back().second;
  }
  return absl::StrJoin(groups, ",", absl::PairFormatter("*"));
}

std::string CallName(uint64_t ordinal, const std::string& operation, const GroupConfig& config) {
  return absl::StrCat("collective #", ordinal, " (", operation, "), rank ", config.rank, " of ",
                      config.world_size);
}

std::string OperationName(const char* operation, int64_t n, const char* type, Communicator comm) {
  return absl::StrCat(operation, " of ", n, " ", type, " over ", NameOf(comm));
}

int64_t OperationBytes(const std::string& name) {
  const std::vector<std::string> words = absl::StrSplit(name, ' ');
  int64_t n = 0;
  if (words.size() != 6 || !absl::SimpleAtoi(words[2], &n)) return 0;
  const std::string& type = words[3];
  if (type == "bytes") return n;
  if (type == "bfloat16") return 2 * n;
  return (type == "float64" ? 8 : 4) * n;
}

}  // namespace coxswain::comm
