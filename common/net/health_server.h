// grpc.health.v1 alone, for whoever cannot speak our TLS: the probes of Kubernetes and Docker.
#ifndef COXSWAIN_COMMON_NET_HEALTH_SERVER_H_
#define COXSWAIN_COMMON_NET_HEALTH_SERVER_H_

#include <memory>
#include <string>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include "absl/status/statusor.h"
#include "common/net/socket_address.h"

namespace coxswain {

// Plaintext on any address: an answer is SERVING or NOT_SERVING and nothing else is served. The
// service "" is SERVING while the process lives, another name from its first Set on (NOT_FOUND
// before).
class HealthServer {
 public:
  // InvalidArgument, or Unavailable naming address and reason when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();  // ends open calls

  void Set(const std::string& service, bool serving);      // thread-safe
  std::string address() const { return address_.text(); }  // with the port that was bound

 private:
  HealthServer() = default;

  SocketAddress address_;
  grpc::CallbackGenericService others_;  // UNIMPLEMENTED for every other method
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_HEALTH_SERVER_H_
