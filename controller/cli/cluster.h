// A controller and its workers on this machine, as `cox up` and `cox train` run them.
#ifndef COXSWAIN_CONTROLLER_CLI_CLUSTER_H_
#define COXSWAIN_CONTROLLER_CLI_CLUSTER_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/cli/processes.h"
#include "controller/cli/prometheus_process.h"
#include "controller/cli/state_dir.h"

namespace coxswain::cli {

struct Cluster {
  std::string directory;  // lock, cluster.json, endpoint.json, logs, and the controller's state
  Process controller;
  Process supervisor;
  PrometheusProcess prometheus;  // where one was asked for
  int workers = 0;               // CPU workers
  int gpus = 0;                  // CUDA workers
  int processes() const { return workers + gpus; }
  Endpoint endpoint;
};

struct ClusterArgs {
  std::string directory;
  int workers = 1;               // CPU workers
  int gpus = 0;                  // CUDA workers, one on each of the first GPUs
  int threads = 1;               // of each CPU worker
  bool prometheus = false;       // and a Prometheus that scrapes them
  bool die_with_parent = false;  // the processes end with this one
  bool open = false;             // whoever reaches a port may do everything
};

// Starts the processes on ephemeral loopback ports and waits until every worker is registered. When
// anything fails, what runs is stopped again and the message ends with the newest log lines. Only
// what no longer runs of `survivors` (a cluster with the same workers) is started, a controller on
// its old address.
absl::StatusOr<Cluster> StartCluster(const ClusterArgs& args,
                                     const std::optional<Cluster>& survivors = {});

// Names of the GPUs of this machine, as the CUDA worker lists them; a file in `directory` passes
// them. FailedPrecondition tells in its words why there are none, or which one it cannot use;
// NotFound: there is no such worker here; Cancelled after an interrupt.
absl::StatusOr<std::vector<std::string>> ListGpus(const std::string& directory);

// The cluster whose processes run out of `directory`; nothing when neither runs.
absl::StatusOr<std::optional<Cluster>> FindCluster(const std::string& directory);

// OK while controller and supervisor run; else Internal with the last words of the one that ended.
absl::Status CheckProcesses(const Cluster& cluster);

// Above the 30 s that the supervisor gives its workers.
inline constexpr std::chrono::seconds kStopGrace{45};

// Prometheus and supervisor (which stops its workers) first, then the controller. Each is killed
// when it has not ended within `grace`, or as long as `patience` lasts; the workers end with their
// supervisor. Says on false that one had to be killed.
bool StopCluster(const Cluster& cluster, std::chrono::milliseconds grace = kStopGrace,
                 Patience patience = Patience::kWhole);

// Holds DIR/lock while it lives: one cox at a time starts or stops a cluster there.
class ClusterLock {
 public:
  static absl::StatusOr<ClusterLock> Take(const std::string& directory);
  ClusterLock(ClusterLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ClusterLock& operator=(ClusterLock&&) = delete;
  ~ClusterLock();

 private:
  explicit ClusterLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CLUSTER_H_
