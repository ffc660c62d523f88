// Who may do what at a controller, over gRPC, as strangers, users, workers and operators meet it.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <httplib.h>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/access/call_credentials.h"
#include "common/access/join_proof.h"
#include "common/access/local_secrets.h"
#include "common/access/page_guard.h"
#include "common/net/grpc_endpoint.h"
#include "controller/access/audit_log.h"
#include "controller/access/tokens.h"
#include "controller/server.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"
#include "coxswain/v1/registry_service.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

using grpc::StatusCode;

// The bytes of a request whose first field is the text `first`; empty: of an empty message.
grpc::ByteBuffer RequestOf(const std::string& first) {
  std::string bytes;
  if (!first.empty()) bytes = std::string("\x0a") + static_cast<char>(first.size()) + first;
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    setenv("COXSWAIN_RUNTIME_DIR", (directory_ + "/run").c_str(), 1);
    flags_.listen = "127.0.0.1:0";
    flags_.metrics = "";
    flags_.state_dir = directory_ + "/state";
    flags_.endpoint_file = directory_ + "/endpoint.json";
  }
  ~AccessTest() override { unsetenv("COXSWAIN_RUNTIME_DIR"); }

  void StartServer() {
    server_ = nullptr;
    auto server = Server::Start(flags_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    std::ifstream in(flags_.endpoint_file);
    address_ = *ParseSocketAddress(nlohmann::json::parse(in).at("grpc"));
    channel_ = grpc::CreateChannel(address_.text(), grpc::InsecureChannelCredentials());
    stub_ = v1::Jobs::NewStub(channel_);
    operator_ = "Bearer " + *access::FindLocalSecret(address_.port, access::kOperatorToken);
  }
  // "Jobs.Get" with what `authorization` says of the caller.
  grpc::Status Call(const std::string& method, const std::string& authorization,
                    const std::string& first = "") {
    return CallOver(channel_, method, authorization, first);
  }
  static grpc::Status CallOver(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& method, const std::string& authorization,
                               const std::string& first) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!authorization.empty()) context.AddMetadata(access::kAuthorization, authorization);
    const size_t dot = method.find('.');
    const std::string path =
        absl::StrCat("/coxswain.v1.", method.substr(0, dot), "/", method.substr(dot + 1));
    grpc::CompletionQueue queue;
    auto call = stub.PrepareUnaryCall(&context, path, RequestOf(first), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, &call);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }
  v1::CreateTokenResponse MakeToken(const std::string& user, const std::string& role,
                                    int64_t lifetime_ms = 0) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    request.set_lifetime_ms(lifetime_ms);
    v1::CreateTokenResponse made;
    const grpc::Status status =
        As(operator_, [&](auto* call) { return stub_->CreateToken(call, request, &made); });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return made;
  }
  template <typename Invoke>
  static grpc::Status As(const std::string& authorization, Invoke invoke) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!authorization.empty()) context.AddMetadata(access::kAuthorization, authorization);
    return invoke(&context);
  }
  v1::SubmitRequest RequestFor(const std::string& name, const std::string& output) const {
    const std::string model = directory_ + "/model";
    std::filesystem::create_directories(model);
    std::ofstream(model + "/config.json") << "{}";
    std::ofstream(model + "/model.safetensors") << "";
    v1::SubmitRequest request;
    request.set_yaml(absl::StrCat(
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: ", name,
        "}\nspec:\n  base_model: ", model,
        "\n  adapter: lora\n  datasets: [{path: /none.jsonl}]\n  train: {max_steps: 2}\n"
        "  checkpoint: {output_dir: ",
        directory_, "/", output, "}\n"));
    request.set_start_paused(true);
    return request;
  }
  std::string Submit(const std::string& authorization, const std::string& name,
                     const std::string& key = "") {
    v1::SubmitRequest request = RequestFor(name, absl::StrCat("out-", ++outputs_));
    request.set_idempotency_key(key);
    v1::Job job;
    const grpc::Status status =
        As(authorization, [&](auto* call) { return stub_->Submit(call, request, &job); });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  v1::ListResponse List(const std::string& authorization) {
    v1::ListResponse list;
    const grpc::Status status =
        As(authorization, [&](auto* call) { return stub_->List(call, v1::ListRequest(), &list); });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return list;
  }
  std::string ProofOf(access::Role role, const std::string& secret = "") const {
    const std::string join =
        secret.empty() ? *access::FindLocalSecret(address_.port, access::kJoinToken) : secret;
    return access::kJoin + access::JoinProof({join}, role, time(nullptr));
  }
  std::string ReadAll(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
  Flags flags_;
  std::unique_ptr<Server> server_;
  SocketAddress address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
  std::string operator_;  // of the programs of this user
  int outputs_ = 0;
};

// What a call with a valid credential is answered.
enum class Answer { kIn, kOwn, kNo };  // let in; let in to own jobs, NOT_FOUND else; DENIED
struct Row {
  const char* method;
  Answer user, operator_, worker;
};
constexpr Answer kIn = Answer::kIn, kOwn = Answer::kOwn, kNo = Answer::kNo;
constexpr Row kRows[] = {
    {"Jobs.Submit", kIn, kIn, kNo},         {"Jobs.Validate", kIn, kIn, kNo},
    {"Jobs.Plan", kIn, kIn, kNo},           {"Jobs.Get", kOwn, kIn, kNo},
    {"Jobs.List", kIn, kIn, kNo},           {"Jobs.Watch", kOwn, kIn, kNo},
    {"Jobs.Logs", kOwn, kIn, kNo},          {"Jobs.Pause", kOwn, kIn, kNo},
    {"Jobs.Inspect", kOwn, kIn, kNo},       {"Jobs.Explain", kOwn, kIn, kNo},
    {"Jobs.ListArtifacts", kOwn, kIn, kNo}, {"Jobs.Fetch", kOwn, kIn, kNo},
    {"Jobs.Dump", kOwn, kIn, kNo},          {"Jobs.ListWorkers", kIn, kIn, kNo},
    {"Jobs.Cordon", kNo, kIn, kNo},         {"Jobs.Uncordon", kNo, kIn, kNo},
    {"Jobs.Version", kIn, kIn, kNo},        {"Jobs.CreateToken", kNo, kIn, kNo},
    {"Jobs.ListTokens", kNo, kIn, kNo},     {"Jobs.RevokeToken", kNo, kIn, kNo},
    {"Jobs.Cancel", kOwn, kIn, kNo},        {"Jobs.Resume", kOwn, kIn, kNo},
    {"Jobs.Delete", kOwn, kIn, kNo},        {"Jobs.BeginUpload", kIn, kIn, kNo},
    {"Jobs.Upload", kIn, kIn, kNo},         {"Registry.Register", kNo, kNo, kIn},
    {"Registry.Heartbeat", kNo, kNo, kIn},
};

// The rows are all methods that a controller serves: a new one fails here until it has one.
TEST_F(AccessTest, EveryMethodHasARow) {
  std::map<std::string, int> rows;
  for (const Row& row : kRows) ++rows[row.method];
  int methods = 0;
  for (const auto* file :
       {v1::SubmitRequest::descriptor()->file(), v1::RegisterRequest::descriptor()->file()}) {
    const auto& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i, ++methods) {
      EXPECT_EQ(rows[absl::StrCat(service.name(), ".", service.method(i)->name())], 1)
          << service.method(i)->full_name();
    }
  }
  EXPECT_EQ(methods, static_cast<int>(std::size(kRows)));
}

// Invariant api-9.
TEST_F(AccessTest, EveryMethodAnswersEachCredentialAsItsRowSays) {
  StartServer();
  const std::string ann = "Bearer " + MakeToken("ann", "user").secret();
  const std::string bob = "Bearer " + MakeToken("bob", "user").secret();
  const auto gone = MakeToken("ann", "operator");
  ASSERT_TRUE(Call("Jobs.RevokeToken", operator_, gone.token().id()).ok());
  const std::string old = "Bearer " + MakeToken("ann", "operator", 1).secret();
  while (Call("Jobs.Version", old).ok()) continue;  // for a millisecond
  const std::map<std::string, std::string> strangers = {
      {"wrong", "Bearer cox_0123456789ab_no"},
      {"no scheme", "cox"},
      {"expired", old},
      {"revoked", "Bearer " + gone.secret()},
      {"proof by another secret", ProofOf(access::Role::kWorker, std::string(64, 'a'))}};
  const std::string job = Submit(ann, "mine");
  const auto is = [&](const Row& row, const std::string& who, const std::string& authorization,
                      Answer answer, bool owner) {
    const grpc::Status status = Call(row.method, authorization, job);
    const bool denied = status.error_code() == StatusCode::PERMISSION_DENIED;
    const bool unknown = status.error_code() == StatusCode::UNAUTHENTICATED;
    const std::string told = absl::StrCat(row.method, " as ", who, ": ", status.error_code(), " ",
                                          status.error_message());
    EXPECT_FALSE(unknown) << told;
    EXPECT_EQ(denied, answer == kNo) << told;
    if (answer != kOwn) return;
    EXPECT_EQ(status.error_code() == StatusCode::NOT_FOUND &&
                  status.error_message().starts_with("no job"),
              !owner)
        << told;
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(Call(row.method, "", job).error_code(), StatusCode::PERMISSION_DENIED)
        << row.method << " without a credential, from this machine";
    for (const auto& [name, authorization] : strangers) {
      EXPECT_EQ(Call(row.method, authorization, job).error_code(), StatusCode::UNAUTHENTICATED)
          << row.method << " with credential: " << name;
    }
  }
  EXPECT_EQ(List(operator_).jobs_size(), 1) << "strangers changed nothing";
  EXPECT_EQ(List(operator_).jobs(0).state(), v1::JOB_STATE_PAUSED);
  for (const Row& row : kRows) {
    is(row, "worker", ProofOf(access::Role::kWorker), row.worker, false);
    is(row, "another user", bob, row.user, false);
  }
  EXPECT_EQ(List(operator_).jobs(0).state(), v1::JOB_STATE_PAUSED) << "nor did other users";
  for (const Row& row : kRows) is(row, "user", ann, row.user, true);
  EXPECT_EQ(List(ann).jobs_size(), 0) << "its owner could delete it";
  const std::string second = Submit(operator_, "theirs");
  for (const Row& row : kRows) {
    const grpc::Status status = Call(row.method, operator_, second);
    EXPECT_EQ(status.error_code() == StatusCode::PERMISSION_DENIED, row.operator_ == kNo)
        << row.method << ": " << status.error_message();
  }
}

TEST_F(AccessTest, RefusalsSayWhyAndHoldNoToken) {
  StartServer();
  const auto made = MakeToken("ann", "user");
  const std::string ann = "Bearer " + made.secret();
  EXPECT_EQ(Call("Jobs.Cordon", ann).error_message(),
            "user ann may not call Jobs.Cordon: it is for role operator");
  ASSERT_TRUE(Call("Jobs.RevokeToken", operator_, made.token().id()).ok());
  const std::string why = Call("Jobs.List", ann).error_message();
  EXPECT_TRUE(why.starts_with("token " + made.token().id() + " of ann was revoked at ")) << why;
  EXPECT_EQ(why.find(made.secret()), std::string::npos);
}

TEST_F(AccessTest, UsersSeeTheirOwnJobsAndNameThemApart) {
  StartServer();
  const std::string ann = "Bearer " + MakeToken("ann", "user").secret();
  const std::string bob = "Bearer " + MakeToken("bob", "user").secret();
  const std::string of_ann = Submit(ann, "tune", "key"), of_bob = Submit(bob, "tune", "key");
  const std::string of_operators = Submit(operator_, "tune");
  EXPECT_NE(of_ann, of_bob) << "an idempotency key is its user's";
  ASSERT_EQ(List(ann).jobs_size(), 1);
  EXPECT_EQ(List(ann).jobs(0).id(), of_ann);
  EXPECT_EQ(List(ann).jobs(0).owner(), "ann");
  EXPECT_EQ(List(operator_).jobs_size(), 3);
  v1::GetRequest get;
  get.set_job("tune");
  v1::Job job;
  ASSERT_TRUE(As(bob, [&](auto* call) { return stub_->Get(call, get, &job); }).ok());
  EXPECT_EQ(job.id(), of_bob) << "the name is of several jobs, and of one of bob's";
  StartServer();
  EXPECT_EQ(List(bob).jobs_size(), 1) << "owner and token are in the store";
  EXPECT_EQ(List(operator_).jobs_size(), 3) << "and programs of this user find the new token";
}

TEST_F(AccessTest, TheOutputOfAnotherUsersJobIsRefusedAndTheJobNotNamed) {
  StartServer();
  const std::string ann = "Bearer " + MakeToken("ann", "user").secret();
  const std::string bob = "Bearer " + MakeToken("bob", "user").secret();
  const std::string id = Submit(ann, "tune");
  const auto told = [&](const std::string& authorization,
                        StatusCode code = StatusCode::FAILED_PRECONDITION) {
    v1::Job job;
    const grpc::Status status = As(authorization, [&](auto* call) {
      return stub_->Submit(call, RequestFor("other", absl::StrCat("out-", outputs_)), &job);
    });
    EXPECT_EQ(status.error_code(), code);
    return status.error_message();
  };
  const auto expect_denied = [&] {
    const std::string why = told(bob, StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(why.find(id), std::string::npos) << why;
    EXPECT_NE(why.find("holds what a job of another user wrote"), std::string::npos) << why;
  };
  expect_denied();
  EXPECT_NE(told(ann).find("belongs to job " + id), std::string::npos) << told(ann);
  EXPECT_NE(told(operator_).find("belongs to job " + id), std::string::npos) << told(operator_);
  ASSERT_TRUE(Call("Jobs.Cancel", ann, id).ok());
  expect_denied();  // it has ended, and its artifacts are hers
}

TEST_F(AccessTest, AnOpenStreamEndsWithItsToken) {
  StartServer();
  const auto made = MakeToken("ann", "user");
  const std::string id = Submit("Bearer " + made.secret(), "tune");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  context.AddMetadata(access::kAuthorization, "Bearer " + made.secret());
  v1::WatchRequest request;
  request.set_job(id);
  request.set_follow(true);
  const auto stream = stub_->Watch(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_TRUE(Call("Jobs.RevokeToken", operator_, made.token().id()).ok());
  while (stream->Read(&event)) continue;
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED) << status.error_message();
  EXPECT_NE(status.error_message().find("was revoked at"), std::string::npos);
}

TEST_F(AccessTest, TheStoreHoldsNoTokenAndSecretsArePrivate) {
  StartServer();
  const auto made = MakeToken("ann", "user");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path();
    EXPECT_EQ(ReadAll(path).find(made.secret()), std::string::npos) << path;
    const bool secret = path.ends_with("-token") || path.ends_with(".jsonl");
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_TRUE(!secret || (found.st_mode & 0777) == 0600) << path;
  }
}

// Invariant api-10.
TEST_F(AccessTest, WhatIsDoneAndRefusedIsInTheAuditLog) {
  StartServer();
  const std::string ann = "Bearer " + MakeToken("ann", "user").secret();
  const std::string id = Submit(ann, "mine");
  ASSERT_TRUE(Call("Jobs.Cancel", ann, id).ok());
  Call("Jobs.Cancel", "", id);
  Call("Jobs.Cordon", ann, "host");
  List(ann);
  const auto lines = [this](const std::string& name) {
    std::vector<nlohmann::json> read;
    std::istringstream text(ReadAll(flags_.state_dir + name));
    for (std::string line; std::getline(text, line);) read.push_back(nlohmann::json::parse(line));
    return read;
  };
  const auto done = lines("/audit.jsonl"), refused = lines("/refused.jsonl");
  ASSERT_EQ(done.size(), 3u) << "reading is not recorded";
  EXPECT_EQ(done[0]["method"], "Jobs.CreateToken");
  EXPECT_EQ(done[0]["role"], "operator");
  EXPECT_EQ(done[0]["object"], "ann");
  EXPECT_EQ(done[1]["method"], "Jobs.Submit");
  EXPECT_EQ(done[1]["name"], "ann");
  EXPECT_EQ(done[1]["object"], id);
  EXPECT_EQ(done[1]["code"], "OK");
  EXPECT_TRUE(done[1]["peer"].get<std::string>().starts_with("ipv4:127.0.0.1:"));
  EXPECT_GT(done[1]["time_unix_ms"].get<int64_t>(), 1700000000000);
  EXPECT_EQ(done[2]["method"], "Jobs.Cancel");
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0]["code"], "PERMISSION_DENIED");
  EXPECT_EQ(refused[0]["object"], id);
  EXPECT_EQ(refused[0]["role"], "");
  EXPECT_EQ(refused[1]["code"], "PERMISSION_DENIED");
  EXPECT_EQ(refused[1]["name"], "ann");
  EXPECT_EQ(ReadAll(flags_.state_dir + "/audit.jsonl").find(ann.substr(7)), std::string::npos);
}

TEST_F(AccessTest, AFullAuditFileIsRotatedAndTheOldestGoes) {
  std::filesystem::create_directories(flags_.state_dir);
  access::AuditLog log(flags_.state_dir, /*most_bytes=*/300);
  for (int i = 0; i < 40; ++i) log.Add({.method = "Jobs.Submit", .object = absl::StrCat("j", i)});
  const std::string path = flags_.state_dir + "/audit.jsonl";
  EXPECT_NE(ReadAll(path).find("\"j39\""), std::string::npos);
  for (int i = 1; i <= access::AuditLog::kOlder; ++i) {
    const std::string older = ReadAll(absl::StrCat(path, ".", i));
    EXPECT_FALSE(older.empty()) << i;
    EXPECT_LE(older.size(), 300u) << i;
  }
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(path, ".", access::AuditLog::kOlder + 1)));
}

TEST_F(AccessTest, PagesAreForThisMachineUnderItsNameOrForAnOperatorsToken) {
  flags_.metrics = "127.0.0.1:0";
  StartServer();
  const std::string ann = "Bearer " + MakeToken("ann", "user").secret();
  std::ifstream in(flags_.endpoint_file);
  const std::string address = nlohmann::json::parse(in).at("metrics");
  const auto get = [&](const std::string& path, const std::string& host,
                       const std::string& authorization) {
    httplib::Client client("http://" + address);
    httplib::Headers headers = {{"Host", host}};
    if (!authorization.empty()) headers.emplace("Authorization", authorization);
    return client.Get(path.c_str(), headers)->status;
  };
  for (const char* path : {"/metrics", "/", "/jobs/none", "/scrape-targets"}) {
    const int found = std::string(path) == "/jobs/none" ? 404 : 200;
    EXPECT_EQ(get(path, address, ""), found) << path;
    EXPECT_EQ(get(path, "localhost:1", ""), found) << path;
    EXPECT_EQ(get(path, "127.0.0.1.example.com", ""), 421) << path;
    EXPECT_EQ(get(path, "rebound.example.com:80", ""), 421) << path;
    EXPECT_EQ(get(path, "rebound.example.com", operator_), found) << path;
    EXPECT_EQ(get(path, address, "Bearer wrong"), 401) << path;
    EXPECT_EQ(get(path, address, ann), 403) << path;
    EXPECT_EQ(httplib::Client("http://" + address).Post(path, "", "text/plain")->status, 405);
  }
  const access::Door door({});
  EXPECT_EQ(access::RefusePage(door, {.on_loopback = false, .host = "localhost"})->status, 401)
      << "another machine brings a token, whatever name it asks for";
}

// A certificate of one role does not do what another does.
TEST_F(AccessTest, CertificatesOfHostsSubmitNothingAndThoseOfClientsRegisterNothing) {
  const std::string tls = directory_ + "/tls";
  const std::string make =
      "USERS=ann deploy/tls/make-certificates.sh " + tls + " >" + tls + ".log 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0) << ReadAll(tls + ".log");
  const auto files = [&](const std::string& who) {
    return TlsFiles{tls + "/" + who + "/tls.crt", tls + "/" + who + "/tls.key",
                    tls + "/" + who + "/ca.crt"};
  };
  flags_.tls = files("controller");
  StartServer();
  const auto call = [&](const std::string& who, const std::string& method) {
    const auto credentials = ChannelCredentials(address_, files(who), /*insecure=*/false);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return CallOver(NewChannel(address_.text(), *credentials), method, "", "").error_code();
  };
  EXPECT_EQ(call("worker", "Jobs.Submit"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call("worker", "Registry.Register"), StatusCode::INVALID_ARGUMENT) << "let in";
  EXPECT_EQ(call("client", "Registry.Register"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call("client", "Jobs.ListTokens"), StatusCode::OK);
  EXPECT_EQ(call("controller", "Jobs.Submit"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call("user-ann", "Jobs.List"), StatusCode::OK);
  EXPECT_EQ(call("user-ann", "Jobs.Cordon"), StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace coxswain
