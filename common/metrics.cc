#include "common/metrics.h"

#include <chrono>
#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/build_info.h"
#include "common/socket_address.h"
#include "common/status_macros.h"
#include "prometheus/gauge.h"

namespace coxswain {
MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string address,
                             std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)), exposer_(std::move(exposer)), address_(std::move(address)) {}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  ASSIGN_OR_RETURN(SocketAddress bound, ParseSocketAddress(address));
  if (bound.host == "localhost") bound.host = "127.0.0.1";  // civetweb resolves no names
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(bound.text());
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat("metrics address ", address,
                                               " cannot be bound: ", BindError(bound),
                                               "; choose another port, or 0 for a free one"));
  }
  exposer->RegisterCollectable(registry);
  bound.port = exposer->GetListeningPorts().at(0);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(std::move(exposer), bound.text(), std::move(registry)));
}

void AddProcessMetrics(std::string_view component, prometheus::Registry* registry) {
  prometheus::BuildGauge()
      .Name("coxswain_build_info")
      .Help("Identity of the build; the value is 1")
      .Register(*registry)
      .Add({{"component", std::string(component)},
            {"version", std::string(BuildVersion())},
            {"commit", std::string(BuildCommit())}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("Start time of the process, seconds since 1970")
      .Register(*registry)
      .Add({})
      .Set(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
               .count());
}

}  // namespace coxswain
