// The controller as clients and operators meet it: over gRPC, and as a process.
#include "controller/server.h"

#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <httplib.h>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/identity.h"
#include "controller/runtime/lanes.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"
#include "coxswain/v1/registry_service.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    flags_.listen = "127.0.0.1:0";
    flags_.metrics = "";
    flags_.open = true;
    flags_.state_dir = directory_ + "/state";
    flags_.endpoint_file = directory_ + "/endpoint.json";
  }

  std::string Endpoint() {
    std::ifstream in(flags_.endpoint_file);
    return nlohmann::json::parse(in).at("grpc");
  }
  std::shared_ptr<grpc::Channel> Dial() {
    return grpc::CreateChannel(Endpoint(), grpc::InsecureChannelCredentials());
  }
  // Its model has the files that Submit asks for, and nothing in them.
  std::string Yaml() const { return YamlInto("out"); }
  std::string YamlInto(const std::string& output) const {
    const std::string model = directory_ + "/model";
    std::filesystem::create_directories(model);
    std::ofstream(model + "/config.json") << "{}";
    std::ofstream(model + "/model.safetensors") << "";
    return "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: j}\nspec:\n"
           "  base_model: " +
           model +
           "\n  adapter: lora\n  datasets: [{path: /none.jsonl}]\n"
           "  train: {max_steps: 2}\n  checkpoint: {output_dir: /none/" +
           output + "}\n";
  }
  // Starts the real binary; stdout and stderr go to `log`.
  pid_t Spawn(const std::vector<std::string>& extra, const std::string& log) {
    std::vector<std::string> args = {
        COXSWAIN_CONTROLLER, "--listen",       flags_.listen,     "--metrics",          "",
        "--state-dir",       flags_.state_dir, "--endpoint-file", flags_.endpoint_file, "--open"};
    args.insert(args.end(), extra.begin(), extra.end());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(fd, 1);
      dup2(fd, 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  bool WaitForEndpoint() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(flags_.endpoint_file)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static int ExitCode(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
  Flags flags_;
};

// The check that grpc.health.v1 clients make, without generated code: a string in, an enum out.
int Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string bytes;
  if (!service.empty()) bytes = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, &call);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return -1;
  std::vector<grpc::Slice> slices;
  response.Dump(&slices);
  std::string out;
  for (const grpc::Slice& part : slices) {
    out.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return out.size() >= 2 ? out[1] : 0;
}

// The answer to list_services of grpc.reflection.v1alpha, as bytes: names are readable in it.
std::string ListServices(const std::shared_ptr<grpc::Channel>& channel) {
  const grpc::Slice slice(std::string("\x3a\x01*"));  // field 7, list_services: "*"
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&call);
  queue.Next(&tag, &ok);
  call->WriteLast(request, grpc::WriteOptions(), &call);
  queue.Next(&tag, &ok);
  call->Read(&response, &call);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, &call);
  queue.Next(&tag, &ok);
  grpc::Slice whole;
  if (!response.Valid() || !response.DumpToSingleSlice(&whole).ok()) return status.error_message();
  return std::string(reinterpret_cast<const char*>(whole.begin()), whole.size());
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string services = ListServices(Dial());
  for (const char* name : {"coxswain.v1.Jobs", "coxswain.v1.Registry", "grpc.health.v1.Health"}) {
    EXPECT_NE(services.find(name), std::string::npos) << name << " in " << services;
  }
}

TEST_F(ServerTest, ServesJobsOverGrpcAndSaysThatItIsHealthy) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto channel = Dial();
  auto stub = v1::Jobs::NewStub(channel);
  v1::SubmitRequest submit;
  submit.set_yaml(Yaml());
  v1::Job job;
  grpc::ClientContext submit_context;
  ASSERT_TRUE(stub->Submit(&submit_context, submit, &job).ok());

  v1::WatchRequest watch;
  watch.set_job(job.id());
  watch.set_follow(true);
  grpc::ClientContext watch_context;
  auto reader = stub->Watch(&watch_context, watch);
  v1::JobEvent event;
  v1::JobState last = v1::JOB_STATE_UNSPECIFIED;
  while (reader->Read(&event)) last = event.state();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(last, v1::JOB_STATE_FAILED);  // config.json is empty

  v1::GetRequest get;
  get.set_job("j");
  grpc::ClientContext get_context;
  ASSERT_TRUE(stub->Get(&get_context, get, &job).ok());
  EXPECT_EQ(job.error().kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(job.error().message().find("config.json"), std::string::npos) << job.error().message();

  EXPECT_EQ(Health(channel, ""), 1);
  EXPECT_EQ(Health(channel, "coxswain.v1.Jobs"), 1);
}

// Invariant api-5. Another connection holds the write lock: the probe fails until it lets go.
TEST_F(ServerTest, JobsIsServingOnlyWhileTheStoreTakesWrites) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto channel = Dial();
  const auto health_becomes = [&](int expected) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (Health(channel, "coxswain.v1.Jobs") != expected) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  ASSERT_TRUE(health_becomes(1));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((flags_.state_dir + "/coxswain.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_TRUE(health_becomes(2));
  sqlite3_close(other);
  EXPECT_TRUE(health_becomes(1));
}

TEST_F(ServerTest, RefusesAWorkerOfAnotherBuildWithBothValues) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok());
  auto stub = v1::Registry::NewStub(Dial());
  v1::RegisterRequest hello;
  hello.set_incarnation("i");
  hello.set_address("127.0.0.1:1");
  hello.set_host("h");
  hello.mutable_build()->set_device("cpu");
  hello.mutable_build()->set_protocol(kWireProtocol + 1);
  v1::RegisterResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Register(&context, hello, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find("protocol 2, the controller 1"), std::string::npos);

  hello.mutable_build()->set_protocol(kWireProtocol);
  hello.mutable_build()->set_version(std::string(BuildVersion()));
  hello.mutable_build()->set_commit("another");
  grpc::ClientContext again;
  const grpc::Status commit = stub->Register(&again, hello, &response);
  EXPECT_EQ(commit.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(
      commit.error_message().find("commit another, the controller " + std::string(BuildCommit())),
      std::string::npos)
      << commit.error_message();
}

// What waits for a lock stands for any long preparation.
TEST_F(ServerTest, APlanWhoseClientHasGoneGivesItsLaneToTheNext) {
  const std::string quickstart = std::filesystem::absolute("deploy/quickstart");
  const auto request = [&](const std::string& data) {
    v1::PlanRequest plan;
    plan.set_yaml(
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: j}\nspec:\n"
        "  base_model: " +
        quickstart + "/model\n  adapter: lora\n  datasets: [{path: " + quickstart + "/" + data +
        ", format: alpaca}]\n  sequence_len: 512\n  train: {max_steps: 2}\n"
        "  checkpoint: {output_dir: " +
        directory_ + "/out}\n  resources: {device: cpu, workers: 1}\n");
    return plan;
  };
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Jobs::NewStub(Dial());
  const auto ask = [&](const std::string& data, std::chrono::milliseconds patience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1::PlanResponse response;
    return stub->Plan(&context, request(data), &response);
  };
  constexpr std::chrono::seconds kPatience{60};
  const grpc::Status first = ask("held_out.jsonl", kPatience);
  ASSERT_TRUE(first.ok()) << first.error_message();
  int lock = -1;
  for (const auto& entry : std::filesystem::directory_iterator(flags_.state_dir + "/token-cache")) {
    if (entry.path().extension() == ".lock") lock = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
  }
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  std::vector<std::thread> clients;
  for (int i = 0; i < 2 * Lanes::ThreadsOf(Lane::kPlans); ++i) {
    clients.emplace_back([&] {
      EXPECT_EQ(ask("held_out.jsonl", std::chrono::milliseconds(500)).error_code(),
                grpc::StatusCode::DEADLINE_EXCEEDED);
    });
  }
  for (std::thread& client : clients) client.join();
  const grpc::Status next = ask("train.jsonl", kPatience);
  EXPECT_TRUE(next.ok()) << next.error_message();
  close(lock);
}

// Invariant page-4.
TEST_F(ServerTest, ServesThePageBesideMetricsAndChangesNothing) {
  flags_.metrics = "127.0.0.1:0";
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  std::ifstream in(flags_.endpoint_file);
  httplib::Client client("http://" + nlohmann::json::parse(in).at("metrics").get<std::string>());
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_NE(page->body.find("<h1>Coxswain</h1>"), std::string::npos);
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_NE(page->get_header_value("Content-Security-Policy"), "");
  EXPECT_NE(client.Get("/metrics")->body.find("coxswain_build_info"), std::string::npos);
  EXPECT_EQ(client.Head("/")->status, 200);
  EXPECT_EQ(client.Head("/")->body, "");
  EXPECT_EQ(client.Get("/jobs/none")->status, 404);
  EXPECT_EQ(client.Get("/favicon.ico")->status, 404);
  for (const char* path : {"/", "/metrics", "/jobs/none"}) {
    EXPECT_EQ(client.Post(path, "x", "text/plain")->status, 405) << path;
    EXPECT_EQ(client.Delete(path)->status, 405) << path;
  }
}

TEST_F(ServerTest, AnAddressBeyondLoopbackWithoutCertificatesIsRefusedByFlagNames) {
  flags_.listen = "0.0.0.0:0";
  const auto server = Server::Start(flags_);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(server.status().message().find("--tls-cert"), absl::string_view::npos);
}

TEST_F(ServerTest, APortInUseIsAnErrorThatNamesIt) {
  auto first = Server::Start(flags_);
  ASSERT_TRUE(first.ok());
  Flags second = flags_;
  second.listen = Endpoint();
  second.state_dir = directory_ + "/other";
  second.endpoint_file = "";
  const auto server = Server::Start(second);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(server.status().message().find(second.listen), absl::string_view::npos);
}

TEST_F(ServerTest, SigtermEndsTheProcessInGoodOrderAndSigkillLosesNoJob) {
  const std::string log = directory_ + "/log";
  pid_t pid = Spawn({}, log);
  ASSERT_TRUE(WaitForEndpoint());
  {
    auto stub = v1::Jobs::NewStub(Dial());
    v1::SubmitRequest submit;
    submit.set_yaml(Yaml());
    submit.set_start_paused(true);
    v1::Job job;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Submit(&context, submit, &job).ok());
  }
  kill(pid, SIGKILL);
  EXPECT_EQ(ExitCode(pid), -SIGKILL);
  std::filesystem::remove(flags_.endpoint_file);

  pid = Spawn({}, log);
  ASSERT_TRUE(WaitForEndpoint());
  {
    auto stub = v1::Jobs::NewStub(Dial());
    v1::ListResponse list;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->List(&context, v1::ListRequest(), &list).ok());
    ASSERT_EQ(list.jobs_size(), 1);
    EXPECT_EQ(list.jobs(0).state(), v1::JOB_STATE_PAUSED);
  }
  kill(pid, SIGTERM);
  EXPECT_EQ(ExitCode(pid), 0);
  EXPECT_FALSE(std::filesystem::exists(flags_.endpoint_file));
}

// 70 MB of job files: more than a message may have, and what a list needs none of.
TEST_F(ServerTest, SeventyJobsOfAMegabyteAreListed) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Jobs::NewStub(Dial());
  const std::string filler(1'000'000, 'x');
  v1::Job job;
  for (int i = 0; i < 70; ++i) {
    v1::SubmitRequest submit;
    submit.set_yaml(YamlInto(std::to_string(i)) + "# " + filler + "\n");
    submit.set_start_paused(true);
    grpc::ClientContext context;
    const grpc::Status accepted = stub->Submit(&context, submit, &job);
    ASSERT_TRUE(accepted.ok()) << accepted.error_message();
  }
  v1::ListResponse list;
  grpc::ClientContext list_context;
  const grpc::Status listed = stub->List(&list_context, v1::ListRequest(), &list);
  ASSERT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_EQ(list.jobs_size(), 70);
  EXPECT_LT(list.ByteSizeLong(), 100'000u);
  v1::GetRequest get;
  get.set_job(list.jobs(69).id());
  grpc::ClientContext get_context;
  ASSERT_TRUE(stub->Get(&get_context, get, &job).ok());
  EXPECT_GT(job.yaml().size(), filler.size());
}

// Invariant api-7, over the wire: unchecked, a tail of -1 empties a queue beyond its end.
TEST_F(ServerTest, ArgumentsThatNoOperationWasWrittenForAreRefusedByName) {
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Jobs::NewStub(Dial());
  v1::SubmitRequest submit;
  submit.set_yaml(Yaml());
  submit.set_start_paused(true);
  v1::Job job;
  grpc::ClientContext submitted;
  ASSERT_TRUE(stub->Submit(&submitted, submit, &job).ok());
  v1::LogsRequest logs;
  logs.set_job(job.id());
  logs.set_rank(-1);
  logs.set_tail(-1);
  grpc::ClientContext logs_context;
  const grpc::Status refused = stub->Logs(&logs_context, logs)->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "tail is -1, allowed: 0 to 2147483647");
  v1::ResumeRequest resume;
  resume.set_job(job.id());
  resume.set_steps(-1);
  grpc::ClientContext resume_context;
  const grpc::Status steps = stub->Resume(&resume_context, resume, &job);
  EXPECT_EQ(steps.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(steps.error_message().starts_with("steps is -1")) << steps.error_message();
}

// Invariant store-6: the row that bytes of a model file made unreadable, and one of noise.
TEST_F(ServerTest, AnUnreadableJobRowIsSetAsideAndTheControllerServes) {
  { ASSERT_TRUE(Server::Start(flags_).ok()); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((flags_.state_dir + "/coxswain.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "INSERT INTO jobs VALUES('old-1', 1, '/', 0, 0, x'0A056F6C642D312A0312"
                         "01FF', -1, ''), ('noise-2', 2, '/', 0, 0, x'FFFFFFFF', -1, '')",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  auto channel = Dial();
  auto stub = v1::Jobs::NewStub(channel);
  v1::ListResponse list;
  grpc::ClientContext list_context;
  ASSERT_TRUE(stub->List(&list_context, v1::ListRequest(), &list).ok());
  ASSERT_EQ(list.jobs_size(), 2);
  EXPECT_EQ(list.jobs(1).id(), "old-1");
  EXPECT_EQ(list.jobs(1).state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(list.jobs(1).error().message().find(flags_.state_dir), std::string::npos);
  v1::SubmitRequest submit;
  submit.set_yaml(Yaml());
  submit.set_start_paused(true);
  v1::Job job;
  grpc::ClientContext submitted;
  EXPECT_TRUE(stub->Submit(&submitted, submit, &job).ok());
  v1::DeleteRequest remove;
  remove.set_job("noise-2");
  v1::DeleteResponse removed;
  grpc::ClientContext remove_context;
  EXPECT_TRUE(stub->Delete(&remove_context, remove, &removed).ok());
}

// Invariant store-9.
TEST_F(ServerTest, DamagedPagesOfTheStoreAreToldWhileTheControllerServes) {
  { ASSERT_TRUE(Server::Start(flags_).ok()); }
  const std::string path = flags_.state_dir + "/coxswain.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 5000) "
                         "INSERT INTO events(job, proto) SELECT 'a', zeroblob(100) FROM n",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 4096 / 2 * 4096));
  file << std::string(4096, '\xff') << std::flush;
  flags_.metrics = "127.0.0.1:0";
  auto server = Server::Start(flags_);
  ASSERT_TRUE(server.ok()) << server.status();
  std::ifstream in(flags_.endpoint_file);
  httplib::Client client("http://" + nlohmann::json::parse(in).at("metrics").get<std::string>());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  double damage = 0;
  while (damage == 0 && std::chrono::steady_clock::now() < deadline) {
    const std::string text = client.Get("/metrics")->body;
    const std::string name = "\ncoxswain_store_damage ";
    ASSERT_NE(text.find(name), std::string::npos);
    damage = std::stod(text.substr(text.find(name) + name.size()));
  }
  EXPECT_GT(damage, 0);
}

// A model file whose header holds bytes that are no text: users see them escaped, and so does the
// controller that starts after it.
TEST_F(ServerTest, ForeignBytesOfAModelFileEndTheirJobAlone) {
  std::string yaml = Yaml();
  std::filesystem::remove_all(directory_ + "/model");
  std::filesystem::copy("deploy/quickstart/model", directory_ + "/model");
  std::fstream weights(directory_ + "/model/model.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
  std::string header(4096, '\0');
  weights.read(header.data(), static_cast<std::streamsize>(header.size()));
  const std::string dtype = "\"dtype\":\"";
  ASSERT_NE(header.find(dtype), std::string::npos);
  weights.seekp(static_cast<std::streamoff>(header.find(dtype) + dtype.size()));
  weights << "\xff\xfe" << std::flush;
  const std::string none = "/none.jsonl";
  yaml.replace(yaml.find(none), none.size(),
               std::filesystem::absolute("deploy/quickstart/train.jsonl").string());
  std::string id;
  for (int start = 0; start < 2; ++start) {
    auto server = Server::Start(flags_);
    ASSERT_TRUE(server.ok()) << server.status();
    auto stub = v1::Jobs::NewStub(Dial());
    v1::Job job;
    if (start == 0) {
      v1::SubmitRequest submit;
      submit.set_yaml(yaml);
      grpc::ClientContext submitted;
      ASSERT_TRUE(stub->Submit(&submitted, submit, &job).ok());
      id = job.id();
    }
    v1::WatchRequest watch;
    watch.set_job(id);
    watch.set_follow(true);
    grpc::ClientContext watched;
    auto reader = stub->Watch(&watched, watch);
    v1::JobEvent event;
    while (reader->Read(&event)) continue;
    EXPECT_TRUE(reader->Finish().ok());
    v1::GetRequest get;
    get.set_job(id);
    grpc::ClientContext context;
    const grpc::Status got = stub->Get(&context, get, &job);
    ASSERT_TRUE(got.ok()) << got.error_message();
    EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
    EXPECT_NE(job.error().message().find("\\xff"), std::string::npos) << job.error().message();
  }
}

TEST_F(ServerTest, WrongFlagsExitWithUsage) {
  EXPECT_EQ(ExitCode(Spawn({"--credits", "99"}, directory_ + "/log")), 2);
  EXPECT_EQ(ExitCode(Spawn({"--bogus"}, directory_ + "/log")), 2);
  EXPECT_EQ(ExitCode(Spawn({"--tls-cert", "/none.pem"}, directory_ + "/log")), 1);
}

}  // namespace
}  // namespace coxswain
