#include "common/net/grpc_endpoint.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "common/net/grpc_status.h"
#include "coxswain/v1/registry_service.grpc.pb.h"

namespace coxswain {
namespace {

TEST(SocketAddressTest, ParsesHostAndPort) {
  EXPECT_EQ(ParseSocketAddress("127.0.0.1:7070")->text(), "127.0.0.1:7070");
  EXPECT_EQ(ParseSocketAddress("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseSocketAddress("[::1]:0")->text(), "[::1]:0");
  EXPECT_EQ(ParseSocketAddress("worker-3.crew:65535")->port, 65535);
}

TEST(SocketAddressTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "7070", "host", "host:", ":7070", "host:-1", "host:65536", "host:x", "::1:7070"}) {
    const auto address = ParseSocketAddress(text);
    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find(text), std::string::npos);
  }
}

// A name is what its owner's DNS says.
TEST(SocketAddressTest, ANameThatBeginsLikeALoopbackAddressIsNone) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"127.0.0.1.example.com", "127.", "127.1", "127.0.0.1 ", "128.0.0.1",
                           "localhost.example.com", "::2", "0.0.0.0", "::", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(GrpcEndpointTest, PlaintextOnLoopbackOnly) {
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    EXPECT_TRUE(ServerCredentials({host, 0}, {}, false).ok());
    EXPECT_TRUE(ChannelCredentials({host, 0}, {}, false).ok());
  }
  for (bool insecure : {false, true}) {
    const absl::Status server = ServerCredentials({"0.0.0.0", 0}, {}, insecure).status();
    EXPECT_EQ(server.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(server.message().find("--tls-cert"), std::string::npos) << server;
    const absl::Status client = ChannelCredentials({"head.crew", 7070}, {}, insecure).status();
    EXPECT_EQ(client.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(client.message().find("--tls-ca"), std::string::npos) << client;
  }
}

TEST(GrpcEndpointTest, MissingCertificateFileIsNamed) {
  const TlsFiles files{"/none/cert.pem", "/none/key.pem", "/none/ca.pem"};
  const absl::Status status = ServerCredentials({"0.0.0.0", 0}, files, false).status();
  EXPECT_NE(status.message().find("/none/cert.pem"), std::string::npos) << status;
}

// A certificate of the server alone says nothing of who calls.
TEST(GrpcEndpointTest, OffLoopbackAServerNeedsAnAuthorityForItsClients) {
  const TlsFiles files{"/none/cert.pem", "/none/key.pem", ""};
  for (const char* host : {"0.0.0.0", "head.crew", "::"}) {
    const absl::Status status = ServerCredentials({host, 7070}, files, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << host;
    EXPECT_NE(status.message().find("--tls-ca"), std::string::npos) << status;
  }
  const absl::Status loopback = ServerCredentials({"127.0.0.1", 0}, files, false).status();
  EXPECT_NE(loopback.message().find("/none/cert.pem"), std::string::npos) << loopback;
}

TEST(GrpcEndpointTest, PortInUseNamesTheAddressAndTheReason) {
  SocketAddress first{"127.0.0.1", 0};
  v1::Registry::CallbackService service;
  grpc::ServerBuilder one, two;
  one.RegisterService(&service);
  two.RegisterService(&service);
  auto server = StartServer(&one, &first, grpc::InsecureServerCredentials());
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_NE(first.port, 0);
  SocketAddress second = first;
  const auto refused = StartServer(&two, &second, grpc::InsecureServerCredentials());
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(refused.status().message().find(first.text()), std::string::npos);
  EXPECT_NE(refused.status().message().find("Address already in use"), std::string::npos)
      << refused.status();
}

class EchoService : public v1::Registry::CallbackService {
  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* call,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse*) override {
    bytes = request->ByteSizeLong();
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 public:
  std::atomic<size_t> bytes{0};
};

TEST(GrpcEndpointTest, MessagesAboveTheDefaultOfGrpcPassAndAboveOursAreRefused) {
  SocketAddress address{"127.0.0.1", 0};
  EchoService service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  auto server = StartServer(&builder, &address, grpc::InsecureServerCredentials());
  ASSERT_TRUE(server.ok()) << server.status();
  // The second channel has no limit of its own: the server must refuse.
  grpc::ChannelArguments unlimited;
  unlimited.SetMaxSendMessageSize(-1);
  for (const auto& channel :
       {NewChannel(address.text(), grpc::InsecureChannelCredentials()),
        grpc::CreateCustomChannel(address.text(), grpc::InsecureChannelCredentials(), unlimited)}) {
    auto stub = v1::Registry::NewStub(channel);
    v1::RegisterRequest request;
    v1::RegisterResponse response;
    request.set_host(std::string(5 << 20, 'x'));
    grpc::ClientContext large;
    const grpc::Status passed = stub->Register(&large, request, &response);
    EXPECT_TRUE(passed.ok()) << passed.error_message();
    EXPECT_EQ(service.bytes, request.ByteSizeLong());
    request.set_host(std::string(kMaxMessageBytes, 'x'));  // and its tag and length
    grpc::ClientContext above;
    EXPECT_EQ(stub->Register(&above, request, &response).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_LT(service.bytes, size_t{kMaxMessageBytes});
  }
}

// A peer whose kernel accepted the connection but whose process has not spoken yet is waited for.
TEST(GrpcEndpointTest, SlowPeerIsNotGivenUpWithinASecond) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto channel = NewChannel("127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                                  grpc::InsecureChannelCredentials(), /*own_connection=*/true);
  ASSERT_EQ(channel->GetState(/*try_to_connect=*/true), GRPC_CHANNEL_IDLE);
  const auto soon = std::chrono::system_clock::now() + std::chrono::seconds(1);
  channel->WaitForStateChange(GRPC_CHANNEL_IDLE, soon);
  channel->WaitForStateChange(GRPC_CHANNEL_CONNECTING, soon);
  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_CONNECTING);
  ::close(listener);
}

// The longest message that ToGrpc makes, each byte of which takes three on the wire.
TEST(GrpcEndpointTest, ALongMessageThatIsNotAsciiArrivesWhole) {
  std::string text;
  while (text.size() + 3 <= kMostMessageBytes) text += "\xe2\x82\xac";
  struct Refusing : v1::Registry::CallbackService {
    explicit Refusing(const std::string& why) : why(why) {}
    grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* call,
                                       const v1::RegisterRequest*, v1::RegisterResponse*) override {
      grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
      reactor->Finish(ToGrpc(absl::InvalidArgumentError(why)));
      return reactor;
    }
    const std::string why;
  } service(text);
  SocketAddress address{"127.0.0.1", 0};
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  auto server = StartServer(&builder, &address, grpc::InsecureServerCredentials());
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Registry::NewStub(NewChannel(address.text(), grpc::InsecureChannelCredentials()));
  v1::RegisterResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Register(&context, v1::RegisterRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(status.error_message(), text);
}

TEST(GrpcStatusTest, ForeignBytesBecomeTextBothWays) {
  const absl::Status foreign = absl::InvalidArgumentError("it holds \"\xff\"");
  EXPECT_EQ(ToGrpc(foreign).error_message(), "it holds \"\\xff\"");
  const grpc::Status from_afar(grpc::StatusCode::INTERNAL, "it holds \"\xff\"");
  EXPECT_EQ(FromGrpc(from_afar).message(), "it holds \"\\xff\"");
}

TEST(GrpcStatusTest, CodesAndMessagesSurviveBothWays) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

}  // namespace
}  // namespace coxswain
