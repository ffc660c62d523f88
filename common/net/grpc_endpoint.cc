#include "common/net/grpc_endpoint.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/outside_text.h"

namespace coxswain {
namespace {

constexpr int kKeepaliveTimeMs = 10000;
constexpr int kKeepaliveTimeoutMs = 5000;
constexpr int kMinPingIntervalMs = 5000;  // below the peer's keepalive time, or it gets GOAWAY

// A stream may be so far ahead of its reader: the largest usual command. Estimating that instead
// would double the packets of small messages by pings.
constexpr int kStreamWindowBytes = 4 << 20;

// A status message travels as metadata, each byte that is not ASCII as three; gRPC's own limit of
// 8 KiB would put RESOURCE_EXHAUSTED in the place of a long one.
constexpr int kMetadataBytes = 3 * static_cast<int>(kMostMessageBytes) + (16 << 10);

// Debian's Abseil is built with assertions: each lock of a mutex, of which gRPC takes dozens per
// message, is looked up in one graph of all locks of the process to find cycles.
void TrustLockOrder() {
  static const bool once = [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  static_cast<void>(once);
}

absl::Status NeedsCertificates(const SocketAddress& address, const char* flags) {
  return absl::FailedPreconditionError(
      absl::StrCat(address.text(), " is not a loopback address: give ", flags,
                   ", or use 127.0.0.1 (plaintext is allowed on loopback only)"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const SocketAddress& listen, const TlsFiles& files, bool insecure) {
  const bool loopback = IsLoopback(listen.host);
  if (loopback && (files.empty() || insecure)) return grpc::InsecureServerCredentials();
  if (files.cert.empty() || files.key.empty() || (!loopback && (files.ca.empty() || insecure))) {
    return NeedsCertificates(listen,
                             "--tls-cert, --tls-key and, for who may call, --tls-ca (without "
                             "--insecure)");
  }
  return TlsServerCredentials(files);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentials(
    const SocketAddress& peer, const TlsFiles& files, bool insecure) {
  const bool loopback = IsLoopback(peer.host);
  if (loopback && (files.empty() || insecure)) return grpc::InsecureChannelCredentials();
  if (files.ca.empty() || insecure) {
    return NeedsCertificates(peer, "--tls-ca (without --insecure)");
  }
  return TlsChannelCredentials(files);
}

void ConfigureServer(grpc::ServerBuilder* builder) {
  TrustLockOrder();
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
}

std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    bool own_connection) {
  TrustLockOrder();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  // Despite its name also the time a connection attempt may take: a busy host needs seconds.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  // Who calls decides about a retry; the filter would look at every message of a stream.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy does not concern cluster traffic
  if (own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(
    grpc::ServerBuilder* builder, SocketAddress* listen,
    const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  ConfigureServer(builder);
  int port = 0;
  builder->AddListeningPort(listen->text(), credentials, &port);
  std::unique_ptr<grpc::Server> server = builder->BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("address ", listen->text(),
                                               " cannot be bound: ", BindError(*listen),
                                               "; choose another port, or 0 for a free one"));
  }
  listen->port = port;
  return server;
}

}  // namespace coxswain
