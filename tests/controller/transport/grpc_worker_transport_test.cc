// Run streams over real gRPC, to workers that are dialled and to workers behind a relay.
#include "controller/transport/grpc_worker_transport.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coxswain/v1/relay_service.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/supervisor/echo_worker.h"
#include "worker/supervisor/relay.h"

namespace coxswain {
namespace {

using supervisor::EchoWorker;
using supervisor::Relay;

// What a stream said. Events come on other threads, the end on the loop.
struct Heard {
  std::mutex mu;
  std::vector<uint64_t> seqs;
  std::optional<absl::Status> end;
};

class TransportTest : public testing::TestWithParam<bool> {
 protected:
  TransportTest() : loop_(&clock_, Loop::Offloading::kInline) {
    for (int slot = 0; slot < 2; ++slot) workers_[slot].WriteEndpoint(state_.path(), slot);
    if (GetParam()) StartRelay(0);
    transport_ = std::make_unique<GrpcWorkerTransport>(&loop_, TlsFiles(), false);
  }
  void StartRelay(int port) {
    auto relay = Relay::Start(
        {"127.0.0.1", port}, {.state_dir = state_.path(), .workers = 2, .open = true},
        [this](int index, pid_t, const std::string& reason) {
          ended_ = absl::StrCat(index, " ", reason);
        },
        &stacks_);
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
  }
  WorkerTarget Target(int slot) const {
    WorkerTarget target;
    target.id = "host/" + std::to_string(slot);
    target.address = workers_[slot].address();
    target.slot = slot;
    if (relay_ != nullptr) target.relay = "127.0.0.1:" + std::to_string(relay_->port());
    return target;
  }
  std::unique_ptr<CommandStream> Run(const WorkerTarget& target, Heard* heard) {
    Incoming<v1::Event> incoming;
    incoming.on_arrival = [heard](const v1::Event& event) {
      std::lock_guard lock(heard->mu);
      heard->seqs.push_back(event.seq());
    };
    incoming.on_closed = [heard](const absl::Status& status) { heard->end = status; };
    return transport_->Run(target, std::move(incoming));
  }
  static void Write(CommandStream& stream, uint64_t seq) {
    v1::Command shared, own;
    shared.mutable_fence()->set_job("job-1");
    own.set_seq(seq);
    stream.Write(SharedCommand(shared), own);
  }
  bool Becomes(const std::function<bool()>& condition) {
    return support::Eventually([&] {
      loop_.RunReady();
      return condition();
    });
  }
  // Reads on until then.
  bool Hears(CommandStream& stream, Heard& heard, const std::vector<uint64_t>& seqs) {
    return Becomes([&] {
      stream.Listen();
      std::lock_guard lock(heard.mu);
      return heard.seqs == seqs;
    });
  }

  SystemClock clock_;
  Loop loop_;
  support::ScratchFolder state_;
  EchoWorker workers_[2];
  std::string ended_;
  supervisor::StackTaker stacks_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<GrpcWorkerTransport> transport_;
};

TEST_P(TransportTest, CommandsGoOutInOrderAndTheStreamEndsAfterTheLast) {
  Heard first, second;
  auto one = Run(Target(0), &first), two = Run(Target(1), &second);
  for (uint64_t seq = 1; seq <= 5; ++seq) {
    Write(*one, seq);
    Write(*two, 10 + seq);
    one->Flush();
    two->Flush();
  }
  ASSERT_TRUE(Hears(*one, first, {1, 2, 3, 4, 5}));
  ASSERT_TRUE(Hears(*two, second, {11, 12, 13, 14, 15}));
  EXPECT_EQ(workers_[0].commands().at(4).fence().job(), "job-1");
  one->WritesDone();
  ASSERT_TRUE(Becomes([&] { return first.end.has_value(); }));
  EXPECT_TRUE(first.end->ok()) << *first.end;
  EXPECT_FALSE(second.end.has_value());
}

TEST_P(TransportTest, WhatNoCommandFollowsIsReadWhenAskedFor) {
  Heard heard;
  workers_[0].AnswerTimes(2);
  auto stream = Run(Target(0), &heard);
  Write(*stream, 1);
  stream->Flush();
  ASSERT_TRUE(Hears(*stream, heard, {1, 1}));
}

// A command that another thread writes while an event is being told lets the next one be read, but
// not before it has been told.
TEST_P(TransportTest, EventsAreToldOneAfterTheOther) {
  std::mutex mu;
  std::condition_variable entered;
  int inside = 0, told = 0;
  bool together = false;
  std::unique_ptr<CommandStream> stream;
  Incoming<v1::Event> incoming;
  incoming.on_arrival = [&](const v1::Event&) {
    std::unique_lock lock(mu);
    together = together || ++inside > 1;
    entered.notify_all();
    if (++told == 1) {
      Write(*stream, 2);
      stream->Flush();
      entered.wait_for(lock, std::chrono::milliseconds(300), [&] { return together; });
    }
    --inside;
  };
  stream = transport_->Run(Target(0), std::move(incoming));
  Write(*stream, 1);
  stream->Flush();
  EXPECT_TRUE(Becomes([&] {
    std::lock_guard lock(mu);
    return told == 2;
  }));
  EXPECT_FALSE(together);
}

TEST_P(TransportTest, AStreamOpensWithoutACommand) {
  Heard heard;
  auto stream = Run(Target(0), &heard);
  EXPECT_TRUE(Becomes([&] { return workers_[0].open() == 1; }));
}

TEST_P(TransportTest, ADroppedStreamIsCancelledAndNoOther) {
  Heard first, second;
  auto one = Run(Target(0), &first), two = Run(Target(1), &second);
  ASSERT_TRUE(Becomes([&] { return workers_[0].open() == 1 && workers_[1].open() == 1; }));
  one.reset();
  EXPECT_TRUE(Becomes([&] { return workers_[0].cancelled() == 1; }));
  Write(*two, 2);
  two->Flush();
  EXPECT_TRUE(Hears(*two, second, {2}));
  EXPECT_FALSE(first.end.has_value());
}

TEST_P(TransportTest, DestroyingTheTransportCancelsEveryStream) {
  Heard first, second;
  auto one = Run(Target(0), &first), two = Run(Target(1), &second);
  ASSERT_TRUE(Becomes([&] { return workers_[0].open() == 1 && workers_[1].open() == 1; }));
  transport_.reset();
  EXPECT_TRUE(support::Eventually(
      [&] { return workers_[0].cancelled() == 1 && workers_[1].cancelled() == 1; }));
  loop_.RunReady();
  EXPECT_FALSE(first.end.has_value() || second.end.has_value());
}

TEST_P(TransportTest, ASupervisorIsAskedToEndAWorker) {
  if (relay_ == nullptr) StartRelay(0);
  WorkerTarget target = Target(1);
  target.supervisor = "127.0.0.1:" + std::to_string(relay_->port());
  std::optional<absl::Status> status;
  const auto end = [&](const std::string& incarnation) {
    status.reset();
    target.incarnation = incarnation;
    transport_->EndWorker(
        target, "it hangs", std::chrono::milliseconds(5000),
        [&](const absl::StatusOr<v1::EndWorkerResponse>& response) { status = response.status(); });
    ASSERT_TRUE(Becomes([&] { return status.has_value(); }));
  };
  end("echo-1");
  EXPECT_EQ(*status, absl::OkStatus());
  EXPECT_EQ(ended_, "1 it hangs");
  end("one of before");
  EXPECT_EQ(status->code(), absl::StatusCode::kNotFound) << *status;
  relay_.reset();
  end("echo-1");
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable) << *status;
  EXPECT_NE(status->message().find("worker host/1"), std::string::npos) << *status;
}

TEST_P(TransportTest, StacksComeFromTheSupervisorWhereOneIsTold) {
  if (relay_ == nullptr) StartRelay(0);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  std::ofstream(state_.path() + "/worker-1.json")
      << "{\"address\": \"127.0.0.1:1\", \"incarnation\": \"hangs\", \"pid\": " << child << "}";
  WorkerTarget target = Target(1);
  target.incarnation = "hangs";
  std::optional<absl::StatusOr<v1::StacksResponse>> answer;
  const auto ask = [&] {
    answer.reset();
    transport_->Stacks(
        target, 4096, std::chrono::milliseconds(20'000),
        [&](const absl::StatusOr<v1::StacksResponse>& response) { answer = response; });
    ASSERT_TRUE(Becomes([&] { return answer.has_value(); }));
  };
  ask();
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(answer->status().message().find("host/1"), std::string::npos) << answer->status();
  target.supervisor = "127.0.0.1:" + std::to_string(relay_->port());
  ask();
  ASSERT_TRUE(answer->ok()) << answer->status();
  EXPECT_EQ((*answer)->text().find("stacks of process " + std::to_string(child)), 0u);
  EXPECT_LE((*answer)->text().size(), 4200u);
  EXPECT_EQ((*answer)->process().pid(), child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(TransportTest, AWorkerThatIsNotThereIsNamed) {
  Heard heard;
  WorkerTarget target = Target(0);
  target.address = "127.0.0.1:1";
  std::ofstream(state_.path() + "/worker-0.json") << "{\"address\": \"127.0.0.1:1\"}";
  auto stream = Run(target, &heard);
  ASSERT_TRUE(Becomes([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.end->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(heard.end->message().find("worker host/0 at 127.0.0.1:1"), 0u) << *heard.end;
}

INSTANTIATE_TEST_SUITE_P(Ways, TransportTest, testing::Values(false, true),
                         [](const auto& way) { return way.param ? "ByRelay" : "Dialled"; });

class HostStreamTest : public TransportTest {};

// Invariant controller-3.
TEST_P(HostStreamTest, ARelayThatDiesClosesEveryStreamByNameAndTheNextOpensAgain) {
  Heard first, second, third;
  const int port = relay_->port();
  const std::string relay = "127.0.0.1:" + std::to_string(port);
  auto one = Run(Target(0), &first), two = Run(Target(1), &second);
  ASSERT_TRUE(Becomes([&] { return workers_[0].open() == 1 && workers_[1].open() == 1; }));
  relay_.reset();
  ASSERT_TRUE(Becomes([&] { return first.end.has_value() && second.end.has_value(); }));
  for (const Heard* heard : {&first, &second}) {
    EXPECT_EQ(heard->end->code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(heard->end->message().find("by relay " + relay), std::string::npos) << *heard->end;
  }
  EXPECT_EQ(second.end->message().find("worker host/1 at " + workers_[1].address()), 0u);
  StartRelay(port);
  auto again = Run(Target(0), &third);
  Write(*again, 3);
  again->Flush();
  EXPECT_TRUE(Hears(*again, third, {3}));
}

// What a relay is sent, message by message.
class Recorder : public v1::Relay::Service {
 public:
  Recorder() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Recorder() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::vector<v1::HostCommands> messages() {
    std::lock_guard lock(mu_);
    return messages_;
  }
  int port = 0;

 private:
  grpc::Status Run(grpc::ServerContext*,
                   grpc::ServerReaderWriter<v1::HostEvents, v1::HostCommands>* stream) override {
    v1::HostCommands message;
    while (stream->Read(&message)) {
      std::lock_guard lock(mu_);
      messages_.push_back(message);
    }
    return grpc::Status::OK;
  }

  std::mutex mu_;
  std::vector<v1::HostCommands> messages_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_P(HostStreamTest, CommandsOfOneStepAreOneMessage) {
  Recorder recorder;
  Heard heard[2];
  std::unique_ptr<CommandStream> streams[2];
  for (int slot = 0; slot < 2; ++slot) {
    WorkerTarget target = Target(slot);
    target.relay = "127.0.0.1:" + std::to_string(recorder.port);
    streams[slot] = Run(target, &heard[slot]);
  }
  v1::Command shared;
  for (uint64_t step = 1; step <= 2; ++step) {
    shared.mutable_train()->set_step(static_cast<int64_t>(step));
    const SharedCommand head(shared);
    for (auto& stream : streams) stream->Write(head, v1::Command());
    for (auto& stream : streams) stream->Flush();
  }
  ASSERT_TRUE(Becomes([&] { return recorder.messages().size() >= 2; }));
  const std::vector<v1::HostCommands> messages = recorder.messages();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].entries_size(), 4);  // two that open
  EXPECT_EQ(messages[1].entries_size(), 2);
  EXPECT_EQ(messages[1].shared(), shared.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Relay, HostStreamTest, testing::Values(true));

}  // namespace
}  // namespace coxswain
