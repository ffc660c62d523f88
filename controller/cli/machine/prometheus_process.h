// A Prometheus on this machine that watches one cluster, for `cox up --with-prometheus`.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_PROMETHEUS_PROCESS_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_PROMETHEUS_PROCESS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/machine/processes.h"

namespace coxswain::cli {

struct PrometheusProcess {
  Process process;
  std::string address;  // host:port of its API; empty when none was started
};

// Starts the `prometheus` program on a free loopback port and waits until it is ready. Every two
// seconds it scrapes the controller at `controller_metrics` (host:port) and the workers that the
// controller lists. It evaluates our alert rules. Configuration, data and log are in
// DIRECTORY/prometheus*. NotFound says how to install Prometheus.
absl::StatusOr<PrometheusProcess> StartPrometheus(const std::string& directory,
                                                  const std::string& controller_metrics,
                                                  bool die_with_parent);

// deploy/prometheus/alerts.yaml, compiled in (cmake/embed.cmake).

// Texts of the rule files by file name.
const std::map<std::string, std::string>& AlertRules();

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_PROMETHEUS_PROCESS_H_
