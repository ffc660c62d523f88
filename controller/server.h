// Wires the controller together: store, loop, transport, driver, gRPC services, metrics endpoint.
#ifndef COXSWAIN_CONTROLLER_SERVER_H_
#define COXSWAIN_CONTROLLER_SERVER_H_

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "controller/flags.h"

namespace coxswain {

class Server {
 public:
  // Recovers what the store holds, then serves. FailedPrecondition, Unavailable and others name the
  // flag or file that is in the way.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Flags& flags);
  // NOT_SERVING: takes no job any more, and waits up to `grace` until those that run have stopped
  // at a step boundary with a checkpoint. All other calls are served.
  void Drain(std::chrono::seconds grace);
  // NOT_SERVING, open calls end, the journal is flushed, workers keep their gangs.
  ~Server();

 private:
  Server();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_SERVER_H_
