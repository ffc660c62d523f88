// How the ranks of one epoch find each other: keys set by one rank become readable by all.
#ifndef COXSWAIN_WORKER_COMM_RENDEZVOUS_H_
#define COXSWAIN_WORKER_COMM_RENDEZVOUS_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::comm {

// Implementations: the agent's relay through the controller (Worker.Connect), and an in-process map
// for ranks as threads. Thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until `key` is set. DeadlineExceeded names the key; Cancelled when the epoch was aborted.
  virtual absl::StatusOr<std::string> Get(const std::string& key,
                                          std::chrono::milliseconds timeout) = 0;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_RENDEZVOUS_H_
