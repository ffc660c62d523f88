// What a supervisor serves to the controller: one stream that carries the Run streams of many
// workers, and the end of a worker that answers nobody.
#ifndef COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
#define COXSWAIN_WORKER_SUPERVISOR_RELAY_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <grpcpp/server.h>

#include "absl/status/statusor.h"
#include "common/net/socket_address.h"
#include "coxswain/v1/relay_service.grpc.pb.h"
#include "worker/supervisor/local_workers.h"

namespace coxswain::supervisor {

// The relay serves on threads of gRPC, which inherit the signal mask: block the supervisor's
// signals before. It knows streams by worker and what bytes go where, and nothing of jobs, fences
// or commands.
class Relay : private v1::Relay::CallbackService {
 public:
  // Called on gRPC's threads; it does what Supervisor::EndWorker says.
  using EndWorkerFn = std::function<void(int index, pid_t pid, const std::string& reason)>;

  // Serves with the certificates of the workers. FailedPrecondition: `listen` is not loopback and
  // there are none; Unavailable names address and reason when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(SocketAddress listen,
                                                      const LocalWorkersOptions& workers,
                                                      EndWorkerFn end_worker);
  ~Relay() override;  // cancels what it carries, and waits for its end

  int port() const { return port_; }  // that was bound

 private:
  Relay(const LocalWorkersOptions& workers, EndWorkerFn end_worker)
      : workers_(workers), end_worker_(std::move(end_worker)) {}
  grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Run(
      grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* EndWorker(grpc::CallbackServerContext* context,
                                      const v1::EndWorkerRequest* request,
                                      v1::EndWorkerResponse*) override;
  absl::Status End(const v1::EndWorkerRequest& request);

  LocalWorkers workers_;
  const EndWorkerFn end_worker_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
