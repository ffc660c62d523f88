// The relay of a host: one stream of the controller carries the Run streams of many workers.
#ifndef COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
#define COXSWAIN_WORKER_SUPERVISOR_RELAY_H_

#include <memory>

#include <grpcpp/server.h>

#include "absl/status/statusor.h"
#include "common/socket_address.h"
#include "coxswain/v1/relay_service.grpc.pb.h"
#include "worker/supervisor/local_workers.h"

namespace coxswain::supervisor {

// Serves on threads of gRPC, which inherit the signal mask: block the supervisor's signals before.
// Knows streams by worker and what bytes go where, and nothing of jobs, fences or commands.
class Relay : private v1::Relay::CallbackService {
 public:
  // With the certificates of the workers. FailedPrecondition: `listen` is not loopback and there
  // are none; Unavailable names address and reason when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(SocketAddress listen,
                                                      const LocalWorkersOptions& workers);
  ~Relay() override;  // cancels what it carries, and waits for its end

  int port() const { return port_; }  // that was bound

 private:
  explicit Relay(const LocalWorkersOptions& workers) : workers_(workers) {}
  grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Run(
      grpc::CallbackServerContext*) override;

  LocalWorkers workers_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
