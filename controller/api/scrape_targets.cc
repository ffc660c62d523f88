#include "controller/api/scrape_targets.h"

#include <nlohmann/json.hpp>

#include "common/net/socket_address.h"

namespace coxswain::api {
namespace {

// Empty: it serves no metrics.
std::string ReachableMetrics(const v1::RegisterRequest& hello) {
  auto metrics = ParseSocketAddress(hello.metrics_address());
  if (!metrics.ok()) return "";
  const auto reached = ParseSocketAddress(hello.address());
  const bool any = metrics->host == "0.0.0.0" || metrics->host == "::";
  if (any && reached.ok()) metrics->host = reached->host;
  return metrics->text();
}

}  // namespace

std::string ScrapeTargets(const std::vector<scheduler::Worker>& workers) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const scheduler::Worker& worker : workers) {
    const std::string address = ReachableMetrics(worker.hello);
    if (address.empty() || worker.status.phase == state::WorkerPhase::kLost) continue;
    groups.push_back(
        {{"targets", {address}},
         {"labels", {{"instance", worker.target.id}, {"device", worker.hello.build().device()}}}});
  }
  return groups.dump(2) + "\n";
}

}  // namespace coxswain::api
