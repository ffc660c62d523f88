// The identity of a gang's ranks, as store::EpochRow keeps it for the next controller.
#ifndef COXSWAIN_CONTROLLER_GANG_GANG_RANKS_H_
#define COXSWAIN_CONTROLLER_GANG_GANG_RANKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/gang/gang.h"

namespace coxswain::gang {

struct KnownRank {
  std::string worker;       // id, "<host>/<slot>"
  std::string incarnation;  // of its process
  std::string host;
  bool maps_tokens = false;  // as Rank::maps_tokens
};

std::string RanksJson(const std::vector<Rank>& ranks);
// The ranks in order. DataLoss names the part that cannot be read.
absl::StatusOr<std::vector<KnownRank>> ParseRanks(const std::string& text);

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_GANG_RANKS_H_
