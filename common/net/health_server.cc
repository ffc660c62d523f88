#include "common/net/health_server.h"

#include <chrono>

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include "common/net/grpc_endpoint.h"
#include "common/status_macros.h"

namespace coxswain {

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  std::unique_ptr<HealthServer> health(new HealthServer());
  ASSIGN_OR_RETURN(health->address_, ParseSocketAddress(address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  builder.RegisterCallbackGenericService(&health->others_);
  ASSIGN_OR_RETURN(health->server_,
                   StartServer(&builder, &health->address_, grpc::InsecureServerCredentials()));
  return health;
}

HealthServer::~HealthServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void HealthServer::Set(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace coxswain
