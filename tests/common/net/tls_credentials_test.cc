#include "common/net/tls_credentials.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/net/grpc_endpoint.h"
#include "common/net/grpc_status.h"
#include "coxswain/v1/registry_service.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kPatience{20};

TlsFiles FilesOf(const std::string& folder) {
  return {folder + "/tls.crt", folder + "/tls.key", folder + "/ca.crt"};
}

// An authority of its own in folder/NAME, with certificates of controller, worker and client.
std::string MakeAuthority(const support::ScratchFolder& folder, const std::string& name) {
  const std::string path = folder.path() + "/" + name;
  const std::string command = "deploy/tls/make-certificates.sh " + path + " >" + path + ".log 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << support::ReadFile(path + ".log");
  return path;
}

void Replace(const TlsFiles& from, const TlsFiles& to) {
  for (const auto& [source, target] :
       {std::pair(from.ca, to.ca), std::pair(from.key, to.key), std::pair(from.cert, to.cert)}) {
    fs::copy_file(source, target + ".new", fs::copy_options::overwrite_existing);
    fs::rename(target + ".new", target);
  }
}

class AcceptingService : public v1::Registry::CallbackService {
  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* call, const v1::RegisterRequest*,
                                     v1::RegisterResponse*) override {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class TlsCredentialsTest : public ::testing::Test {
 protected:
  void Serve(const TlsFiles& files) {
    const auto credentials = ServerCredentials(listen_, files, /*insecure=*/false);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    auto server = StartServer(&builder, &listen_, *credentials);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<grpc::Channel> Dial(const TlsFiles& files) const {
    const auto credentials = ChannelCredentials(listen_, files, /*insecure=*/false);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return NewChannel(listen_.text(), *credentials, /*own_connection=*/true);
  }
  static absl::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
    auto stub = v1::Registry::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::RegisterResponse response;
    return FromGrpc(stub->Register(&context, v1::RegisterRequest(), &response));
  }

  SocketAddress listen_{"127.0.0.1", 0};
  AcceptingService service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TlsCredentialsTest, ServerAndClientTakeCertificatesThatReplaceTheirOwn) {
  const support::ScratchFolder folder;
  const std::string first = MakeAuthority(folder, "first");
  const std::string second = MakeAuthority(folder, "second");
  const TlsFiles server = FilesOf(first + "/controller"), client = FilesOf(first + "/client");
  Serve(server);
  const auto open = Dial(client);
  ASSERT_TRUE(Call(open).ok()) << Call(open);
  EXPECT_FALSE(Call(Dial(FilesOf(second + "/client"))).ok()) << "of an authority not known yet";

  Replace(FilesOf(second + "/controller"), server);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  absl::Status newcomer = absl::UnknownError("not called");
  while (!newcomer.ok() && std::chrono::steady_clock::now() < deadline) {
    newcomer = Call(Dial(FilesOf(second + "/client")));
  }
  EXPECT_TRUE(newcomer.ok()) << newcomer;
  EXPECT_TRUE(Call(open).ok()) << "an open connection goes on";
  Replace(FilesOf(second + "/client"), client);
  absl::Status again = absl::UnknownError("not called");
  while (!again.ok() && std::chrono::steady_clock::now() < deadline) again = Call(Dial(client));
  EXPECT_TRUE(again.ok()) << "the client's own files: " << again;
}

TEST_F(TlsCredentialsTest, FilesThatDoNotFitAreNamed) {
  const support::ScratchFolder folder;
  const std::string authority = MakeAuthority(folder, "authority");
  const TlsFiles controller = FilesOf(authority + "/controller");
  const TlsFiles mixed{controller.cert, authority + "/worker/tls.key", controller.ca};
  const absl::Status pair = TlsServerCredentials(mixed).status();
  EXPECT_EQ(pair.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(pair.message().find(mixed.key), std::string::npos) << pair;
  EXPECT_NE(pair.message().find(mixed.cert), std::string::npos) << pair;

  const TlsFiles text{controller.cert, controller.key, folder.Write("ca", "no certificate")};
  const absl::Status authority_file = TlsServerCredentials(text).status();
  EXPECT_NE(authority_file.message().find(text.ca), std::string::npos) << authority_file;
}

}  // namespace
}  // namespace coxswain
