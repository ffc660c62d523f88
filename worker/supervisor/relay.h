// The supervisor's service to the controller: one stream that carries the Run streams of many
// workers, a worker's stacks, and the end of a worker that does not answer.
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
#include "worker/supervisor/stack_taker.h"

namespace coxswain::supervisor {

// The relay serves on threads of gRPC, which inherit the signal mask: block the supervisor's
// signals before. It routes bytes to the streams of workers, and knows nothing of jobs, fences or
// commands.
class Relay : private v1::Relay::CallbackService {
 public:
  // Called on gRPC's threads. It must do the same as Supervisor::EndWorker.
  using EndWorkerFn = std::function<void(int index, pid_t pid, const std::string& reason)>;

  // Serves with the certificates of the workers, which are children of this process. `stacks` must
  // outlive the relay. FailedPrecondition: `listen` is not loopback and there are no certificates.
  // Unavailable names the address that cannot be bound, and the reason.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(SocketAddress listen,
                                                      const LocalWorkersOptions& workers,
                                                      EndWorkerFn end_worker, StackTaker* stacks);
  ~Relay() override;  // cancels the streams that it carries, and waits for their end

  int port() const { return port_; }  // the bound port

 private:
  Relay(const LocalWorkersOptions& workers, EndWorkerFn end_worker, StackTaker* stacks)
      : workers_(workers),
        door_(workers_.MakeDoor()),
        end_worker_(std::move(end_worker)),
        stacks_(stacks) {}
  // OK, or a refusal, which it logs.
  absl::Status Admit(const grpc::CallbackServerContext& call, const char* method) const;
  grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Run(
      grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* EndWorker(grpc::CallbackServerContext* context,
                                      const v1::EndWorkerRequest* request,
                                      v1::EndWorkerResponse*) override;
  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context,
                                   const v1::StacksRequest* request,
                                   v1::StacksResponse* response) override;
  // The endpoint of the worker in `slot`. NotFound when its incarnation is not `incarnation`.
  absl::StatusOr<Endpoint> Find(int slot, const std::string& incarnation) const;
  absl::Status End(const v1::EndWorkerRequest& request);
  absl::StatusOr<v1::ProcessState> Examine(const v1::StacksRequest& request) const;

  LocalWorkers workers_;
  const access::Door door_;  // the access check of every call
  const EndWorkerFn end_worker_;
  StackTaker* const stacks_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
