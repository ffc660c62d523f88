// One worker process: registration, heartbeats, loss of the controller, drain, logs, health,
// metrics.
#include "worker/agent/worker_node.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <limits>

#include <httplib.h>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include "common/access/join_proof.h"
#include "common/access/secret_file.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/net/grpc_endpoint.h"
#include "tests/support/eventually.h"
#include "tests/support/http_request.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"
#include "worker/agent/host_info.h"
#include "worker/agent/life_sign.h"

namespace coxswain::agent {
namespace {

using support::Eventually;
using support::kTestDeadline;
using support::Scrape;

class NodeTest : public testing::Test {
 protected:
  ~NodeTest() override { fake_engine::SetHooks({}); }
  const v1::Bins bins_ = OneBin(7, {4, 9, 2, 5});
};

TEST_F(NodeTest, RegistersWithItsIdentityAndBeats) {
  TestRegistry registry(/*term=*/9);
  WorkerOptions options = TestOptions(registry, 3);
  options.relay = "127.0.0.1:7078";
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() >= 3; }));
  const v1::RegisterRequest hello = registry.registrations().at(0);
  EXPECT_EQ(hello.slot(), 3);
  EXPECT_EQ(hello.address(), (*node)->address());
  EXPECT_EQ(hello.relay_address(), "127.0.0.1:7078");
  EXPECT_EQ(hello.metrics_address(), (*node)->metrics_address());
  EXPECT_EQ(hello.incarnation(), (*node)->incarnation());
  EXPECT_EQ(hello.pid(), getpid());
  EXPECT_EQ(hello.build().protocol(), kWireProtocol);
  EXPECT_EQ(hello.build().version(), BuildVersion());
  EXPECT_EQ(hello.build().device(), "cpu");
  EXPECT_EQ(hello.memory_bytes(), 1u << 30);
  EXPECT_EQ(hello.host_memory_bytes(), MemoryLimitBytes());
  EXPECT_FALSE(hello.has_current());
  EXPECT_FALSE(registry.last_beat()->has_current());
  // The term of Register fences older controllers.
  TestRank stale(node->get(), 0, 1, 1, /*term=*/8);
  EXPECT_EQ(stale.Prepare().status().code(), absl::StatusCode::kAborted);
}

// A worker with a join token, and what calls of its service are answered.
class DoorTest : public NodeTest {
 protected:
  DoorTest() {
    EXPECT_TRUE(access::WriteSecret(file_, secret_).ok());
    WorkerOptions options = TestOptions(registry_);
    options.open = false;
    options.join_token_file = file_;
    auto node = WorkerNode::Start(options);
    EXPECT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
  }
  static std::string Proof(const std::string& secret, access::Role role) {
    return access::kJoin + access::JoinProof({secret}, role, time(nullptr));
  }
  grpc::StatusCode Call(const std::string& method, const std::string& authorization) const {
    grpc::GenericStub stub(
        grpc::CreateChannel(node_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
    if (!authorization.empty()) context.AddMetadata(access::kAuthorization, authorization);
    grpc::CompletionQueue queue;
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
    auto call = stub.PrepareUnaryCall(&context, "/coxswain.v1.Worker/" + method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, &call);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.error_code();
  }

  const support::ScratchFolder folder_;
  const std::string file_ = folder_.path() + "/join-token";
  const std::string secret_ = std::string(64, 's');
  TestRegistry registry_;
  std::unique_ptr<WorkerNode> node_;
};

// Invariant agent-10.
TEST_F(DoorTest, OnlyItsControllerCommandsAWorker) {
  const std::string controller = Proof(secret_, access::Role::kController);
  const std::string supervisor = Proof(secret_, access::Role::kSupervisor);
  const auto& service = *v1::Command::descriptor()->file()->service(0);
  ASSERT_EQ(service.method_count(), 9);
  for (int i = 0; i < service.method_count(); ++i) {
    const std::string method = service.method(i)->name();
    EXPECT_EQ(Call(method, ""), grpc::StatusCode::PERMISSION_DENIED) << method;
    for (const std::string& stranger :
         {std::string("Bearer cox_1"), Proof(std::string(64, 'o'), access::Role::kController)}) {
      EXPECT_EQ(Call(method, stranger), grpc::StatusCode::UNAUTHENTICATED)
          << method << " with '" << stranger << "'";
    }
    EXPECT_EQ(Call(method, Proof(secret_, access::Role::kWorker)),
              grpc::StatusCode::PERMISSION_DENIED)
        << method;
    EXPECT_EQ(Call(method, supervisor) == grpc::StatusCode::PERMISSION_DENIED, method != "Run")
        << method;
    const grpc::StatusCode told = Call(method, controller);
    EXPECT_NE(told, grpc::StatusCode::UNAUTHENTICATED) << method;
    EXPECT_NE(told, grpc::StatusCode::PERMISSION_DENIED) << method;
  }
}

// Invariant agent-10.
TEST_F(DoorTest, AStrangersAbortWithAHugeTermDoesNotFenceTheController) {
  ASSERT_TRUE(Eventually([&] { return registry_.beats() > 0; }));
  TestRank rank(node_.get(), 0, 1);
  v1::AbortRequest request;
  *request.mutable_fence() = rank.fence;
  request.mutable_fence()->set_term(uint64_t{1} << 40);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  v1::AbortResponse response;
  EXPECT_EQ(rank.stub()->Abort(&context, request, &response).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(node_->agent().progress().highest_term, 1u);
}

TEST_F(DoorTest, AWorkerProvesItselfWithoutSendingItsToken) {
  ASSERT_TRUE(Eventually([&] { return registry_.beats() > 0; }));
  for (const std::string& shown : registry_.authorizations()) {
    ASSERT_TRUE(shown.starts_with(access::kJoin)) << shown;
    EXPECT_EQ(shown.find(secret_), std::string::npos);
    const auto who =
        access::CheckJoinProof({secret_}, shown.substr(sizeof(access::kJoin) - 1), time(nullptr));
    ASSERT_TRUE(who.ok()) << who.status();
    EXPECT_EQ(who->role, access::Role::kWorker);
  }
  EXPECT_GE(registry_.authorizations().size(), 2u) << "Register and Heartbeat";
}

TEST_F(NodeTest, WaitsForAControllerThatComesLater) {
  int port = 0;
  { port = TestRegistry().port(); }
  WorkerOptions options;
  {
    TestRegistry gone;
    options = TestOptions(gone);
  }
  options.controller = "127.0.0.1:" + std::to_string(port);
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  TestRegistry late(1, port);
  EXPECT_TRUE(Eventually([&] { return late.beats() > 0; }));
}

// Invariant agent-7.
TEST_F(NodeTest, ControllerThatComesBackFindsTheEpochAndItsResults) {
  auto registry = std::make_unique<TestRegistry>(1);
  const int port = registry->port();
  auto node = WorkerNode::Start(TestOptions(*registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry->beats() > 0; }));
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  auto run = rank.Run();
  run->Send(rank.Train(1, 0, bins_, 3));
  const auto first = run->Receive();
  ASSERT_TRUE(first.has_value());
  run->Cancel();
  registry.reset();
  TestRegistry back(2, port);
  ASSERT_TRUE(Eventually([&] { return back.beats() > 0; }));
  const v1::RegisterRequest hello = back.registrations().at(0);
  EXPECT_EQ(hello.current().job(), "job-1");
  EXPECT_EQ(hello.current().epoch(), 1u);
  EXPECT_EQ(back.last_beat()->last_done_seq(), 1u);
  EXPECT_EQ(hello.highest_term(), 1u);
  // The old controller's term is refused from now on; the new one's is taken.
  EXPECT_EQ(rank.Abort().code(), absl::StatusCode::kAborted);
  rank.fence.set_term(2);
  auto again = rank.Run();
  again->Send(rank.Train(1, 0, bins_, 3));
  const auto repeated = again->Receive();
  ASSERT_TRUE(repeated.has_value());
  EXPECT_EQ(repeated->done().SerializeAsString(), first->done().SerializeAsString());
}

TEST_F(NodeTest, EpochIsDroppedWhenNoControllerComesBack) {
  auto registry = std::make_unique<TestRegistry>();
  WorkerOptions options = TestOptions(*registry);
  options.controller_grace = std::chrono::milliseconds(300);
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry->beats() > 0; }));
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  registry.reset();
  EXPECT_EQ(rank.Inspect().state(), "READY");  // not at once
  EXPECT_TRUE(Eventually([&] { return rank.Inspect().state() == "IDLE"; }));
  EXPECT_EQ(fake_engine::LiveEngines(), 0);
}

// It asks a controller of another store until it has dropped the gang, and is taken then.
TEST_F(NodeTest, AWorkerInAGangOfAnotherStoreIsFreeAfterItsLease) {
  auto registry = std::make_unique<TestRegistry>(/*term=*/6);
  const int port = registry->port();
  WorkerOptions options = TestOptions(*registry);
  options.controller_grace = std::chrono::milliseconds(300);
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry->beats() > 0; }));
  TestRank rank(node->get(), 0, 1, /*epoch=*/1, /*term=*/6);
  ASSERT_TRUE(rank.Prepare().ok());
  registry.reset();
  TestRegistry other(/*term=*/1, port);
  other.RefuseGangs(grpc::Status(grpc::StatusCode::ABORTED, "of store-a, mine is store-b"));
  ASSERT_TRUE(Eventually([&] { return other.beats() > 0; }));
  EXPECT_GT(other.refusals(), 0);
  EXPECT_FALSE(other.registrations().at(0).has_current());
  EXPECT_EQ(other.registrations().at(0).highest_term(), 6u);
  EXPECT_EQ(fake_engine::LiveEngines(), 0);
}

TEST_F(NodeTest, RegistersAgainWhenAsked) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() > 0; }));
  registry.AskToRegisterAgain();
  EXPECT_TRUE(Eventually([&] { return registry.registrations().size() == 2; }));
}

TEST_F(NodeTest, RefusalEndsTheProcessWith77) {
  TestRegistry registry;
  registry.RefuseWith(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "worker 0.1.0, mine 9"));
  std::promise<std::pair<int, std::string>> exited;
  WorkerOptions options = TestOptions(registry);
  options.exit = [&](int code, const std::string& why) { exited.set_value({code, why}); };
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  const auto [code, why] = exited.get_future().get();
  EXPECT_EQ(code, kExitRefused);
  EXPECT_NE(why.find("worker 0.1.0, mine 9"), std::string::npos) << why;
}

// A half-open connection of a worker that died holds its slot for a while.
TEST_F(NodeTest, ATakenSlotIsWaitedForAndThenEndsTheProcessWith77) {
  const grpc::Status taken(grpc::StatusCode::ALREADY_EXISTS, "slot 0 of host a is taken");
  TestRegistry registry;
  registry.RefuseWith(taken);
  std::promise<std::pair<int, std::string>> exited;
  WorkerOptions options = TestOptions(registry);
  options.supervisor_id = "one";
  options.supervisor = "127.0.0.1:1";
  options.host_id = "rack-7";
  options.exit = [&](int code, const std::string& why) { exited.set_value({code, why}); };
  auto patient = WorkerNode::Start(options);
  ASSERT_TRUE(patient.ok()) << patient.status();
  ASSERT_TRUE(Eventually([&] { return registry.refusals() >= 2; }));
  registry.RefuseWith(grpc::Status::OK);
  ASSERT_TRUE(Eventually([&] { return registry.beats() > 0; }));
  const v1::RegisterRequest hello = registry.registrations().back();
  EXPECT_EQ(hello.host(), "rack-7");
  EXPECT_EQ(hello.supervisor(), "one");
  EXPECT_EQ(hello.supervisor_address(), "127.0.0.1:1");
  patient->reset();
  registry.RefuseWith(taken);
  options.slot_grace = std::chrono::milliseconds(100);
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  const auto [code, why] = exited.get_future().get();
  EXPECT_EQ(code, kExitRefused);
  EXPECT_NE(why.find("slot 0 of host a is taken"), std::string::npos) << why;
}

// What a supervisor hears of a process, byte by byte.
class LifeSignTest : public testing::Test {
 protected:
  LifeSignTest() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~LifeSignTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  bool Heard() {
    char bytes[64];
    return read(ends_[0], bytes, sizeof(bytes)) > 0;
  }
  int ends_[2];
};

TEST_F(LifeSignTest, ComesFromTheFirstMomentOnAndAgain) {
  LifeSign sign(ends_[1]);
  EXPECT_TRUE(Eventually([&] { return Heard(); }));
  EXPECT_TRUE(Eventually([&] { return Heard(); }));
}

TEST_F(LifeSignTest, StaysAwayWhileWhatItFollowsIsWedged) {
  std::promise<void> wedged, freed;
  LifeSign sign(ends_[1]);
  std::atomic<int> looks{0};
  sign.Follow([&] {
    if (looks++ > 0) return;
    wedged.set_value();
    freed.get_future().wait();
  });
  wedged.get_future().wait();
  while (Heard()) continue;
  EXPECT_FALSE(Heard());
  freed.set_value();
  EXPECT_TRUE(Eventually([&] { return Heard(); }));
  sign.Follow({});
}

TEST_F(NodeTest, DrainTellsTheControllerAndFinishesCommands) {
  std::atomic<bool> go{false};
  fake_engine::SetHooks({.prepare = {},
                         .train =
                             [&](int, int64_t, const std::function<bool()>&) {
                               Eventually([&] { return go.load(); });
                               return absl::OkStatus();
                             },
                         .evaluate = {},
                         .snapshot = {}});
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  auto run = rank.Run();
  run->Send(rank.Train(1, 0, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return rank.Inspect().state() == "RUNNING"; }));
  (*node)->Drain();
  EXPECT_TRUE(Eventually([&] { return registry.last_beat() && registry.last_beat()->draining(); }));
  EXPECT_FALSE((*node)->Drained());
  go = true;
  ASSERT_TRUE(run->Receive().has_value());
  EXPECT_FALSE((*node)->Drained());  // the controller may still want a snapshot
  ASSERT_TRUE(rank.Release().ok());
  EXPECT_TRUE((*node)->Drained());
}

TEST_F(NodeTest, AnIdleWorkerLeavesWhenTheControllerKnows) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() >= 1; }));
  (*node)->Drain();
  ASSERT_TRUE(Eventually([&] { return (*node)->Drained(); }));
  EXPECT_TRUE(registry.last_beat()->draining());
}

TEST_F(NodeTest, PortsInUseAreErrorsThatNameThem) {
  TestRegistry registry;
  WorkerOptions options = TestOptions(registry);
  options.listen = registry.address();
  const absl::Status grpc = WorkerNode::Start(options).status();
  EXPECT_EQ(grpc.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(grpc.message().find(registry.address()), std::string::npos) << grpc;
  EXPECT_NE(grpc.message().find("Address already in use"), std::string::npos) << grpc;
  options = TestOptions(registry);
  options.metrics = registry.address();
  const absl::Status metrics = WorkerNode::Start(options).status();
  EXPECT_NE(metrics.message().find(registry.address()), std::string::npos) << metrics;
}

TEST_F(NodeTest, MetricsShowTheLastStep) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  auto run = rank.Run();
  std::optional<v1::Event> event;
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    run->Send(rank.Train(seq, seq - 1, bins_, 3));
    event = run->Receive();
    ASSERT_TRUE(event.has_value());
  }
  const std::string text = Scrape((*node)->metrics_address());
  const auto row = [&](const std::string& name) {
    const size_t at = text.find("\n" + name + "{job=\"job-1\",rank=\"0\"} ");
    EXPECT_NE(at, std::string::npos) << name << "\n" << text;
    return at == std::string::npos ? -1.0 : std::stod(text.substr(text.find("} ", at) + 2));
  };
  EXPECT_EQ(row("coxswain_worker_train_tokens_total"), 12);
  EXPECT_EQ(row("coxswain_worker_grad_norm"), event->done().grad_norm());
  EXPECT_DOUBLE_EQ(row("coxswain_worker_train_loss"), event->done().global_loss_sum() / 3);
  EXPECT_EQ(row("coxswain_worker_step"), 2);
  EXPECT_GT(row("coxswain_worker_tokens_per_second"), 0);
  EXPECT_EQ(row("coxswain_worker_step_duration_seconds_count"), 3);
  EXPECT_NE(
      text.find("coxswain_worker_memory_bytes{class=\"weights\",job=\"job-1\",rank=\"0\"} 1000"),
      std::string::npos);
  EXPECT_NE(text.find("coxswain_worker_state{state=\"RUNNING\"} 1"), std::string::npos);
}

TEST_F(NodeTest, LogsSendTheTailThenFollow) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() > 0; }));
  TestRank rank(node->get(), 0, 1);
  log::Info("first line of the test");
  grpc::ClientContext context;
  v1::WorkerLogsRequest request;
  request.set_tail(1);
  request.set_follow(true);
  auto stream = rank.stub()->Logs(&context, request);
  v1::LogLine line;
  ASSERT_TRUE(stream->Read(&line));
  EXPECT_NE(line.json().find("first line of the test"), std::string::npos) << line.json();
  EXPECT_EQ(line.level(), "info");
  log::Warning("second line of the test");
  ASSERT_TRUE(stream->Read(&line));
  EXPECT_NE(line.json().find("second line of the test"), std::string::npos) << line.json();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);

  grpc::ClientContext once;
  request.set_follow(false);
  request.set_tail(2);
  auto tail = rank.stub()->Logs(&once, request);
  int lines = 0;
  while (tail->Read(&line)) ++lines;
  EXPECT_EQ(lines, 2);
  EXPECT_TRUE(tail->Finish().ok());

  for (const int32_t wrong : {-1, std::numeric_limits<int32_t>::min()}) {
    grpc::ClientContext refused;
    request.set_tail(wrong);
    const grpc::Status status = rank.stub()->Logs(&refused, request)->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(),
              "tail is " + std::to_string(wrong) + ": 0 or more lines are needed");
  }
}

TEST_F(NodeTest, LogsOfAJobBeginWithItsPrepareAndEndWithAnother) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() > 0; }));
  log::Info("before the job");
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  log::Info("of the job");
  const auto read = [&](const std::string& job) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
    v1::WorkerLogsRequest request;
    request.set_tail(1000);
    request.set_job(job);
    auto stream = rank.stub()->Logs(&context, request);
    std::string text;
    for (v1::LogLine line; stream->Read(&line);) text += line.json();
    EXPECT_TRUE(stream->Finish().ok());
    return text;
  };
  const std::string own = read(rank.fence.job());
  EXPECT_NE(own.find("of the job"), std::string::npos);
  EXPECT_EQ(own.find("before the job"), std::string::npos);
  EXPECT_NE(read("").find("before the job"), std::string::npos);
  EXPECT_EQ(read("another-job"), "");
}

TEST_F(NodeTest, LogsThatAreFollowedBeforeThePrepareBeginWithIt) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(Eventually([&] { return registry.beats() > 0; }));
  TestRank rank(node->get(), 0, 1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  v1::WorkerLogsRequest request;
  request.set_job(rank.fence.job());
  request.set_follow(true);
  auto stream = rank.stub()->Logs(&context, request);
  stream->WaitForInitialMetadata();
  log::Info("before the job");
  ASSERT_TRUE(rank.Prepare().ok());
  v1::LogLine line;
  ASSERT_TRUE(stream->Read(&line));
  EXPECT_NE(line.json().find("preparing"), std::string::npos) << line.json();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(NodeTest, MetricsAreForThisMachineAndForWhoHoldsTheSecret) {
  const support::ScratchFolder folder;
  const std::string secret(64, 'p');
  TestRegistry registry;
  WorkerOptions options = TestOptions(registry);
  options.open = false;
  options.pages_token_file = folder.path() + "/pages-token";
  ASSERT_TRUE(access::WriteSecret(options.pages_token_file, secret).ok());
  const auto status_of = [](const WorkerNode& node, const std::string& host,
                            const std::string& authorization) {
    httplib::Client client("http://" + node.metrics_address());
    httplib::Headers headers = {{"Host", host}};
    if (!authorization.empty()) headers.emplace("Authorization", authorization);
    return client.Get("/metrics", headers)->status;
  };
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(status_of(**node, (*node)->metrics_address(), ""), 200);
  EXPECT_EQ(status_of(**node, "rebound.example.com", ""), 421);
  EXPECT_EQ(status_of(**node, "rebound.example.com", "Bearer " + secret), 200);
  EXPECT_EQ(status_of(**node, "rebound.example.com", "Bearer other"), 401);
  node->reset();
  options.open_pages = true;
  node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(status_of(**node, "rebound.example.com", ""), 200);
}

// Health and reflection by their raw messages: field 1 of the request is the service's name.
std::string RawCall(const std::string& address, const std::string& method,
                    const std::string& request) {
  const auto channel = NewChannel(address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  grpc::CompletionQueue queue;
  grpc::Slice slice(request);
  auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return status.error_message();
  grpc::Slice whole;
  reply.DumpToSingleSlice(&whole);
  return std::string(reinterpret_cast<const char*>(whole.begin()), whole.size());
}

TEST_F(NodeTest, HealthFollowsTheRegistration) {
  auto registry = std::make_unique<TestRegistry>();
  auto node = WorkerNode::Start(TestOptions(*registry));
  ASSERT_TRUE(node.ok()) << node.status();
  const std::string name = "coxswain.v1.Worker";
  const std::string request = std::string("\x0a") + static_cast<char>(name.size()) + name;
  const auto health = [&](const std::string& message) {
    return RawCall((*node)->address(), "/grpc.health.v1.Health/Check", message);
  };
  const std::string serving("\x08\x01", 2), not_serving("\x08\x02", 2);
  EXPECT_TRUE(Eventually([&] { return health(request) == serving; }));
  EXPECT_EQ(health(""), serving);  // the process
  registry.reset();
  EXPECT_TRUE(Eventually([&] { return health(request) == not_serving; }));
  EXPECT_EQ(health(""), serving);
}

TEST_F(NodeTest, MessagesUpTo64MiBPass) {
  TestRegistry registry;
  auto node = WorkerNode::Start(TestOptions(registry));
  ASSERT_TRUE(node.ok()) << node.status();
  TestRank rank(node->get(), 0, 1);
  const auto prepare = [&](size_t bytes) {
    v1::PrepareRequest request = rank.PrepareRequest();
    request.set_plan(std::string(bytes, 'p'));
    grpc::ClientContext context;
    v1::PrepareResponse response;
    return rank.stub()->Prepare(&context, request, &response).error_code();
  };
  EXPECT_EQ(prepare(60 << 20), grpc::StatusCode::INVALID_ARGUMENT);  // arrived: its hash is wrong
  EXPECT_EQ(prepare(65 << 20), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace coxswain::agent
