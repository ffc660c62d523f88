// What every gRPC server and channel of ours has in common: credentials, keepalive, message size.
#ifndef COXSWAIN_COMMON_NET_GRPC_ENDPOINT_H_
#define COXSWAIN_COMMON_NET_GRPC_ENDPOINT_H_

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/status/statusor.h"
#include "common/net/socket_address.h"
#include "common/net/tls_credentials.h"

namespace coxswain {

inline constexpr int kMaxMessageBytes = 64 << 20;

// Loopback without certificates is plaintext. FailedPrecondition naming the flags: any other host
// without all that it needs. `insecure` keeps plaintext on loopback although certificates are
// given.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const SocketAddress& listen, const TlsFiles& files, bool insecure);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentials(
    const SocketAddress& peer, const TlsFiles& files, bool insecure);

// Message size, keepalive, no port sharing (a port in use is an error).
void ConfigureServer(grpc::ServerBuilder* builder);

// A channel with the same limits. `own_connection`: shares no TCP connection with other channels.
std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    bool own_connection = false);

// The server started on `listen`, its port bound; `services` are added by the caller before.
// Unavailable names address and reason when it cannot be bound. Sets listen->port.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(
    grpc::ServerBuilder* builder, SocketAddress* listen,
    const std::shared_ptr<grpc::ServerCredentials>& credentials);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_GRPC_ENDPOINT_H_
