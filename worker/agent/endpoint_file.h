// The file in which processes of this host read where a worker serves and whether it is registered.
#ifndef COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_
#define COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"

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
  absl::Status Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  Mutex mu_;
  bool published_ ABSL_GUARDED_BY(mu_) = false;
  bool registered_ ABSL_GUARDED_BY(mu_) = false;
  std::string address_ ABSL_GUARDED_BY(mu_), metrics_address_ ABSL_GUARDED_BY(mu_),
      incarnation_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_ENDPOINT_FILE_H_
