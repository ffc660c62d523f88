// The /metrics endpoint over prometheus-cpp, and the rows that every process has.
// Names of all rows: the table in common/README.md.
#ifndef COXSWAIN_COMMON_METRICS_H_
#define COXSWAIN_COMMON_METRICS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/socket_address.h"
#include "prometheus/exposer.h"
#include "prometheus/registry.h"

namespace coxswain {

// Serves `registry` at http://<address>/metrics until destroyed.
class MetricsServer {
 public:
  // `address`: "host:port", host an IPv4 address or a bracketed IPv6 address; port 0 takes a free
  // one. InvalidArgument for another form, Unavailable naming address and reason when it cannot be
  // bound (e.g. the port is in use).
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry);

  ~MetricsServer();

  const std::string& address() const { return address_; }  // with the port that was bound

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, SocketAddress bound,
                std::shared_ptr<prometheus::Registry> registry);

  std::shared_ptr<prometheus::Registry> registry_;  // the exposer keeps it by weak_ptr only
  std::unique_ptr<prometheus::Exposer> exposer_;
  const SocketAddress bound_;
  const std::string address_;
};

// Adds coxswain_build_info{component,version,commit} = 1 and process_start_time_seconds.
void AddProcessMetrics(std::string_view component, prometheus::Registry* registry);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_METRICS_H_
