// The text of /metrics, and the rows that every process has. Names of all rows: common/README.md.
#ifndef COXSWAIN_COMMON_NET_METRICS_H_
#define COXSWAIN_COMMON_NET_METRICS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/net/http_server.h"
#include "prometheus/registry.h"

namespace coxswain {

// `registry` in Prometheus' text format.
HttpResponse MetricsText(const prometheus::Registry& registry);

// Serves it at http://<address>/metrics, one scrape at a time, to whom `guard` does not refuse;
// errors as HttpServer::Start.
// prometheus-cpp's own Exposer cannot serve a worker: the threads of its web server have 100 KiB of
// stack, less than libtorch takes for thread-local variables.
absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    HttpServer::Guard guard = {});

// Adds coxswain_build_info{component,version,commit} = 1 and process_start_time_seconds.
void AddProcessMetrics(std::string_view component, prometheus::Registry* registry);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_METRICS_H_
