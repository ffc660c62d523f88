#include "controller/cli/machine/prometheus_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/cli/machine/interrupt.h"

namespace coxswain::cli {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr std::chrono::seconds kStartPatience{60};

// Free a moment ago: Prometheus does not tell which port it took for 0.
absl::StatusOr<int> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* name = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && bind(fd, name, size) == 0 && getsockname(fd, name, &size) == 0;
  if (fd >= 0) close(fd);
  if (!bound) return absl::UnavailableError("no free port on 127.0.0.1 for Prometheus");
  return ntohs(address.sin_port);
}

absl::Status WaitUntilReady(const Process& process, int port, const std::string& log_path) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  httplib::Client client(kHost, port);
  for (;;) {
    const auto answer = client.Get("/-/ready");
    if (answer && answer->status == 200) return absl::OkStatus();
    if (!IsRunning(process) || std::chrono::steady_clock::now() > deadline) {
      return absl::InternalError(absl::StrCat("Prometheus is not ready on ", kHost, ":", port,
                                              ". Newest lines of ", log_path, ":\n",
                                              TailOfFile(log_path, 10)));
    }
    if (WaitForInterrupt(50)) return absl::CancelledError("interrupted");
  }
}

absl::Status Write(const std::string& path, const std::string& content) {
  std::ofstream file(path);
  file << content;
  file.close();
  if (!file) return absl::InternalError(absl::StrCat(path, ": cannot write"));
  return absl::OkStatus();
}

// Scrapes the controller at `controller_metrics` and the workers that it lists, every two seconds.
std::string Config(const std::string& controller_metrics, const std::string& rules) {
  return absl::StrCat(
      "# Written by cox up --with-prometheus.\n"
      "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}\n"
      "rule_files: [\"",
      rules,
      "\"]\n"
      "scrape_configs:\n"
      "  - job_name: coxswain-controller\n"
      "    honor_labels: true  # `job` is the fine-tuning job\n"
      "    static_configs: [{targets: [\"",
      controller_metrics,
      "\"], labels: {namespace: local}}]\n"
      "  - job_name: coxswain-workers\n"
      "    honor_labels: true\n"
      "    http_sd_configs: [{url: \"http://",
      controller_metrics,
      "/scrape-targets\", refresh_interval: 2s}]\n"
      "    relabel_configs: [{target_label: namespace, replacement: local}]\n");
}

}  // namespace

absl::StatusOr<PrometheusProcess> StartPrometheus(const std::string& directory,
                                                  const std::string& controller_metrics,
                                                  bool die_with_parent) {
  const auto binary = FindBinary("prometheus");
  if (!binary.ok()) {
    return absl::NotFoundError(absl::StrCat(std::string(binary.status().message()),
                                            ": on Debian, apt-get install prometheus"));
  }
  const std::string config_path = absl::StrCat(directory, "/prometheus.yaml");
  const std::string log_path = absl::StrCat(directory, "/prometheus.log");
  const auto& [rules_name, rules] = *AlertRules().begin();
  const std::string rules_path = absl::StrCat(directory, "/prometheus-", rules_name);
  RETURN_IF_ERROR(Write(rules_path, rules));
  RETURN_IF_ERROR(Write(config_path, Config(controller_metrics, rules_path)));
  ASSIGN_OR_RETURN(const int port, FreePort());
  PrometheusProcess prometheus;
  prometheus.address = absl::StrCat(kHost, ":", port);
  ASSIGN_OR_RETURN(prometheus.process,
                   Spawn({.binary = *binary,
                          .args = {absl::StrCat("--config.file=", config_path),
                                   absl::StrCat("--storage.tsdb.path=", directory, "/prometheus"),
                                   absl::StrCat("--web.listen-address=", prometheus.address)},
                          .log_path = log_path,
                          .die_with_parent = die_with_parent}));
  if (absl::Status ready = WaitUntilReady(prometheus.process, port, log_path); !ready.ok()) {
    Terminate(prometheus.process, std::chrono::seconds(5));
    return ready;
  }
  return prometheus;
}

}  // namespace coxswain::cli
