#include "controller/gang/gang_ranks.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::gang {

using nlohmann::json;

std::string RanksJson(const std::vector<Rank>& ranks) {
  json out = json::array();
  for (const Rank& rank : ranks) {
    out.push_back({{"worker", rank.target.id},
                   {"incarnation", rank.target.incarnation},
                   {"host", rank.host},
                   {"maps_tokens", rank.maps_tokens}});
  }
  // Names of hosts are workers' text.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::vector<KnownRank>> ParseRanks(const std::string& text) {
  std::vector<KnownRank> ranks;
  try {
    for (const json& rank : json::parse(text)) {
      ranks.push_back({.worker = rank.at("worker"),
                       .incarnation = rank.at("incarnation"),
                       .host = rank.at("host"),
                       .maps_tokens = rank.at("maps_tokens")});
    }
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat("the ranks of a gang cannot be read: ", error.what()));
  }
  return ranks;
}

}  // namespace coxswain::gang
