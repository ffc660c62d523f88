#include "common/net/health_check.h"

#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "common/net/grpc_status.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr size_t kLongestName = 127;  // its length is one byte of the message
constexpr char kServing = 1;          // HealthCheckResponse.ServingStatus

// HealthCheckRequest{1: service} by hand: Debian's gRPC ships no generated code for it.
grpc::ByteBuffer Request(const std::string& service) {
  std::string bytes;
  if (!service.empty()) bytes = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// HealthCheckResponse{1: status}
bool IsServing(grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!response.Dump(&slices).ok()) return false;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes.size() >= 2 && bytes[0] == 0x08 && bytes[1] == kServing;
}

}  // namespace

absl::StatusOr<bool> CheckHealth(const std::string& address, const std::string& service,
                                 std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const SocketAddress peer, ParseSocketAddress(address));
  if (service.size() > kLongestName) {
    return absl::InvalidArgumentError("service: a name of at most 127 bytes is expected");
  }
  grpc::GenericStub stub(grpc::CreateChannel(peer.text(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  grpc::CompletionQueue queue;
  auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", Request(service), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, &call);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  RETURN_IF_ERROR(FromGrpc(status));
  return IsServing(response);
}

}  // namespace coxswain
