// The /metrics endpoint, and the rows that every process has. Names of all rows: common/README.md.
#ifndef COXSWAIN_COMMON_METRICS_H_
#define COXSWAIN_COMMON_METRICS_H_

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "prometheus/registry.h"

namespace coxswain {

// Serves `registry` in Prometheus' text format at http://<address>/metrics until destroyed, one
// scrape at a time. prometheus-cpp's own Exposer cannot serve a worker: the threads of its web
// server have 100 KiB of stack, less than libtorch takes for thread-local variables.
class MetricsServer {
 public:
  // `address`: "host:port"; port 0 takes a free one. InvalidArgument for another form, Unavailable
  // naming address and reason when it cannot be bound (e.g. the port is in use).
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry);
  ~MetricsServer();

  const std::string& address() const { return address_; }  // with the port that was bound

 private:
  MetricsServer(int listener, std::string address, std::shared_ptr<prometheus::Registry> registry);
  void Loop();
  void Answer(int client) const;

  const int listener_;
  const int stop_;  // eventfd
  const std::string address_;
  const std::shared_ptr<prometheus::Registry> registry_;
  std::thread thread_;
};

// Adds coxswain_build_info{component,version,commit} = 1 and process_start_time_seconds.
void AddProcessMetrics(std::string_view component, prometheus::Registry* registry);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_METRICS_H_
