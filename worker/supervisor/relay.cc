#include "worker/supervisor/relay.h"

#include <chrono>

#include <grpcpp/server_builder.h>

#include "common/grpc_endpoint.h"
#include "common/status_macros.h"
#include "worker/supervisor/host_call.h"

namespace coxswain::supervisor {

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(SocketAddress listen,
                                                    const LocalWorkersOptions& workers) {
  ASSIGN_OR_RETURN(const auto credentials,
                   ServerCredentials(listen, workers.tls, workers.insecure));
  std::unique_ptr<Relay> relay(new Relay(workers));
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
  const auto call = std::make_shared<HostCall>(&workers_);
  call->Begin();
  return call.get();
}

}  // namespace coxswain::supervisor
