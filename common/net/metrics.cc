#include "common/net/metrics.h"

#include <chrono>
#include <utility>

#include "common/identity.h"
#include "prometheus/gauge.h"
#include "prometheus/text_serializer.h"

namespace coxswain {

HttpResponse MetricsText(const prometheus::Registry& registry) {
  return {.body = prometheus::TextSerializer().Serialize(registry.Collect()),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    HttpServer::Guard guard) {
  const auto page = [registry = std::move(registry)](const std::string& path) {
    if (path == "/metrics") return MetricsText(*registry);
    return HttpResponse{.status = 404, .body = "only /metrics is served\n"};
  };
  return HttpServer::Start(address, /*threads=*/1, page, std::move(guard));
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
