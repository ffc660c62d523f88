// The file that tells the processes of this host where a worker serves and whether it is
// registered.
#ifndef COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_
#define COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_

#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace coxswain::agent {

// {"address", "metrics_address", "incarnation", "pid", "registered"}. Thread-safe; it appears with
// Publish and is replaced whole on every change. A worker that is killed leaves it behind: readers
// compare the pid.
class EndpointFile {
 public:
  explicit EndpointFile(std::string path) : path_(std::move(path)) {}  // empty: none is written

  absl::Status Publish(const std::string& address, const std::string& metrics_address,
                       const std::string& incarnation);
  void SetRegistered(bool registered);  // failures are logged
  void Remove();

 private:
  absl::Status Write();  // mu_ held

  const std::string path_;
  std::mutex mu_;
  bool published_ = false;
  bool registered_ = false;
  std::string address_, metrics_address_, incarnation_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_
