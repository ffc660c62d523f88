#include "worker/supervisor/relay.h"

#include <chrono>

#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/net/grpc_endpoint.h"
#include "common/status_macros.h"
#include "worker/supervisor/relay_stream.h"

namespace coxswain::supervisor {

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(SocketAddress listen,
                                                    const LocalWorkersOptions& workers,
                                                    EndWorkerFn end_worker) {
  ASSIGN_OR_RETURN(const auto credentials,
                   ServerCredentials(listen, workers.tls, workers.insecure));
  std::unique_ptr<Relay> relay(new Relay(workers, std::move(end_worker)));
  grpc::ServerBuilder builder;
  builder.RegisterService(relay.get());
  ASSIGN_OR_RETURN(relay->server_, StartServer(&builder, &listen, credentials));
  relay->port_ = listen.port;
  return relay;
}

Relay::~Relay() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Relay::Run(
    grpc::CallbackServerContext*) {
  const auto call = std::make_shared<RelayStream>(&workers_);
  call->Begin();
  return call.get();
}

grpc::ServerUnaryReactor* Relay::EndWorker(grpc::CallbackServerContext* context,
                                           const v1::EndWorkerRequest* request,
                                           v1::EndWorkerResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(End(*request)));
  return reactor;
}

absl::Status Relay::End(const v1::EndWorkerRequest& request) {
  ASSIGN_OR_RETURN(const Endpoint endpoint, workers_.Find(request.slot()));
  if (endpoint.incarnation != request.incarnation()) {
    return absl::NotFoundError(absl::StrCat("the worker of slot ", request.slot(), " is process ",
                                            endpoint.incarnation, ", not ", request.incarnation(),
                                            ": that one has ended"));
  }
  end_worker_(static_cast<int>(workers_.IndexOf(request.slot())), endpoint.pid, request.reason());
  return absl::OkStatus();
}

}  // namespace coxswain::supervisor
