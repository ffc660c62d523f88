// Uploads over gRPC, over restarts of the controller and beside other users.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/access/call_credentials.h"
#include "common/access/local_secrets.h"
#include "common/files/hash.h"
#include "common/net/grpc_endpoint.h"
#include "controller/server.h"
#include "controller/uploads/upload_path.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

class UploadRpcTest : public testing::Test {
 protected:
  UploadRpcTest() {
    setenv("COXSWAIN_RUNTIME_DIR", (folder_.path() + "/run").c_str(), 1);
    flags_.listen = "127.0.0.1:0";
    flags_.metrics = "";
    flags_.state_dir = folder_.path() + "/state";
    flags_.endpoint_file = folder_.path() + "/endpoint.json";
    Start();
  }
  ~UploadRpcTest() override { unsetenv("COXSWAIN_RUNTIME_DIR"); }

  void Start() {
    server_ = nullptr;
    auto server = Server::Start(flags_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    std::ifstream in(flags_.endpoint_file);
    const SocketAddress address = *ParseSocketAddress(nlohmann::json::parse(in).at("grpc"));
    stub_ =
        v1::Jobs::NewStub(grpc::CreateChannel(address.text(), grpc::InsecureChannelCredentials()));
    operator_ = *access::FindLocalSecret(address.port, access::kOperatorToken);
  }
  std::string TokenOf(const std::string& user) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role("user");
    v1::CreateTokenResponse made;
    const auto context = ContextOf(operator_);
    EXPECT_TRUE(stub_->CreateToken(context.get(), request, &made).ok());
    return made.secret();
  }
  static std::unique_ptr<grpc::ClientContext> ContextOf(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!token.empty()) access::SignWithToken(token, context.get());
    return context;
  }
  v1::BeginUploadRequest File() const {
    v1::BeginUploadRequest file;
    file.set_name("train.jsonl");
    file.set_sha256(Sha256(content_));
    file.set_bytes(static_cast<int64_t>(content_.size()));
    return file;
  }
  int64_t There(const std::string& token) {
    v1::BeginUploadResponse response;
    const auto context = ContextOf(token);
    const grpc::Status status = stub_->BeginUpload(context.get(), File(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.offset();
  }
  // Bytes `begin` to `end` in one call.
  grpc::Status Send(const std::string& token, int64_t begin, int64_t end) {
    v1::UploadResponse response;
    const auto context = ContextOf(token);
    const auto writer = stub_->Upload(context.get(), &response);
    v1::UploadRequest message;
    *message.mutable_file() = File();
    for (int64_t at = begin; at < end; at += kPiece) {
      message.set_offset(at);
      message.set_data(content_.substr(at, std::min(kPiece, end - at)));
      if (!writer->Write(message)) break;
      message.clear_file();
    }
    writer->WritesDone();
    return writer->Finish();
  }

  static constexpr int64_t kPiece = 1 << 20;
  const support::ScratchFolder folder_;
  const std::string content_ = std::string(3 << 20, 'r') + "end";
  Flags flags_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
  std::string operator_;
};

// Invariants api-11 and uploads-4.
TEST_F(UploadRpcTest, GoesOnAfterARestartOfTheController) {
  const auto size = static_cast<int64_t>(content_.size());
  const grpc::Status early = Send(operator_, 0, kPiece + 5);
  EXPECT_EQ(early.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << early.error_message();
  Start();
  EXPECT_EQ(There(operator_), kPiece + 5);
  EXPECT_EQ(Send(operator_, 0, size).error_code(), grpc::StatusCode::OUT_OF_RANGE);
  const grpc::Status sent = Send(operator_, kPiece + 5, size);
  EXPECT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(There(operator_), size);
  const auto path = uploads::ResolveUpload(flags_.state_dir, "",
                                           "upload://" + ToHex(Sha256(content_)) + "/train.jsonl");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(support::ReadFile(*path), content_);
}

// Invariants api-9, api-10 and uploads-2.
TEST_F(UploadRpcTest, EveryUserHasOwnFiles) {
  const std::string ann = TokenOf("ann"), bob = TokenOf("bob");
  const auto size = static_cast<int64_t>(content_.size());
  EXPECT_EQ(Send("", 0, size).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Send("wrong", 0, size).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ASSERT_TRUE(Send(ann, 0, size).ok());
  EXPECT_EQ(There(ann), size);
  EXPECT_EQ(There(bob), 0);
  const std::string audit = support::ReadFile(flags_.state_dir + "/audit.jsonl");
  EXPECT_NE(audit.find("Jobs.Upload"), std::string::npos) << audit;
  EXPECT_NE(audit.find("upload://"), std::string::npos) << audit;
}

TEST_F(UploadRpcTest, NothingIsTakenWhereTheFlagSaysSo) {
  flags_.upload_gib = 0;
  Start();
  const grpc::Status refused = Send(operator_, 0, 10);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("--upload-gib"), std::string::npos);
}

}  // namespace
}  // namespace coxswain
