// What a supervisor serves to the controller: one stream that carries the Run streams of many
// workers, the stacks of a worker, and the end of one that answers nobody.
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
// signals before. It knows streams by worker and what bytes go where, and nothing of jobs, fences
// or commands.
class Relay : private v1::Relay::CallbackService {
 public:
  // Called on gRPC's threads; it does what Supervisor::EndWorker says.
  using EndWorkerFn = std::function<void(int index, pid_t pid, const std::string& reason)>;

  // Serves with the certificates of the workers, which are children of this process; `stacks`
  // outlives it. FailedPrecondition: `listen` is not loopback and there are none; Unavailable names
  // address and reason when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(SocketAddress listen,
                                                      const LocalWorkersOptions& workers,
                                                      EndWorkerFn end_worker, StackTaker* stacks);
  ~Relay() override;  // cancels what it carries, and waits for its end

  int port() const { return port_; }  // that was bound

 private:
  Relay(const LocalWorkersOptions& workers, EndWorkerFn end_worker, StackTaker* stacks)
      : workers_(workers),
        door_(workers_.MakeDoor()),
        end_worker_(std::move(end_worker)),
        stacks_(stacks) {}
  // OK, or the refusal, which is logged.
  absl::Status Admit(const grpc::CallbackServerContext& call, const char* method) const;
  grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Run(
      grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* EndWorker(grpc::CallbackServerContext* context,
                                      const v1::EndWorkerRequest* request,
                                      v1::EndWorkerResponse*) override;
  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context,
                                   const v1::StacksRequest* request,
                                   v1::StacksResponse* response) override;
  // Of the worker in `slot`; NotFound when it is another process than `incarnation`.
  absl::StatusOr<Endpoint> Find(int slot, const std::string& incarnation) const;
  absl::Status End(const v1::EndWorkerRequest& request);
  absl::StatusOr<v1::ProcessState> Examine(const v1::StacksRequest& request) const;

  LocalWorkers workers_;
  const access::Door door_;  // what every call passes
  const EndWorkerFn end_worker_;
  StackTaker* const stacks_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_H_
