// A controller and its workers on this machine, as `cox up` and `cox train` run them.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CLUSTER_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CLUSTER_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/cli/machine/processes.h"
#include "controller/cli/machine/prometheus_process.h"
#include "controller/cli/machine/state_dir.h"

namespace coxswain::cli {

struct Cluster {
  std::string directory;  // lock, cluster.json, endpoint.json, logs, and the controller's state
  Process controller;
  Process supervisor;
  PrometheusProcess prometheus;  // without a process unless ClusterArgs::prometheus
  int workers = 0;               // CPU workers
  int gpus = 0;                  // CUDA workers
  int processes() const { return workers + gpus; }
  Endpoint endpoint;
};

struct ClusterArgs {
  std::string directory;
  int workers = 1;               // CPU workers
  int gpus = 0;                  // CUDA workers, one on each of the first GPUs
  int threads = 1;               // CPU threads of each CPU worker
  bool prometheus = false;       // also start a Prometheus that scrapes them
  bool die_with_parent = false;  // the processes end with this one
  bool open = false;             // no access control: whoever reaches a port may do everything
};

// Starts the processes on ephemeral loopback ports and waits until every worker is registered. On a
// failure it stops what it started, and the message ends with the newest log lines. `survivors`: a
// cluster with the same workers, of which some processes may still run. Only its ended processes
// are started again, the controller on its old address.
absl::StatusOr<Cluster> StartCluster(const ClusterArgs& args,
                                     const std::optional<Cluster>& survivors = {});

// Names of the GPUs of this machine. The CUDA worker lists them in a file in `directory`.
// FailedPrecondition says in the worker's words why there are none, or which GPU it cannot use.
// NotFound: no CUDA worker is installed. Cancelled after an interrupt.
absl::StatusOr<std::vector<std::string>> ListGpus(const std::string& directory);

// The cluster of cluster.json in `directory`; nothing when neither its controller nor its
// supervisor runs.
absl::StatusOr<std::optional<Cluster>> FindCluster(const std::string& directory);

// OK while controller and supervisor run; else Internal with the last words of the one that ended.
absl::Status CheckProcesses(const Cluster& cluster);

// Longer than the 30 s that the supervisor gives its workers.
inline constexpr std::chrono::seconds kStopGrace{45};

// Stops Prometheus and the supervisor first, then the controller. The supervisor stops its workers.
// A process that does not end within `grace`, or until `patience` ends, is killed; workers end with
// their supervisor. Returns false when a process had to be killed.
bool StopCluster(const Cluster& cluster, std::chrono::milliseconds grace = kStopGrace,
                 Patience patience = Patience::kWhole);

// Holds DIR/lock while the object lives: one cox at a time starts or stops a cluster there.
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

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CLUSTER_H_
