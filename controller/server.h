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
  // Recovers the jobs of the store, then serves. Errors name the flag or file that prevents the
  // start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Flags& flags);
  // Sets NOT_SERVING and takes no more jobs. Waits up to `grace` until running jobs have stopped at
  // a step boundary with a checkpoint. All other calls are served.
  void Drain(std::chrono::seconds grace);
  // Sets NOT_SERVING, ends open calls and flushes the journal. Workers keep their gangs.
  ~Server();

 private:
  Server();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_SERVER_H_
