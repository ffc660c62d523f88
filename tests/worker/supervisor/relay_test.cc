// The relay over real gRPC: many Run streams on one, each as if it were alone.
#include "worker/supervisor/relay.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/access/join_proof.h"
#include "common/access/secret_file.h"
#include "common/net/grpc_status.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/supervisor/echo_worker.h"
#include "worker/supervisor/processes.h"
#include "worker/supervisor/relay_stream.h"

extern char** environ;

namespace coxswain::supervisor {
namespace {

using support::Eventually;
using support::kTestDeadline;

// A controller's stream. Reads give up at kTestDeadline.
class Controller {
 public:
  explicit Controller(int port)
      : stub_(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                  grpc::InsecureChannelCredentials())) {
    context_.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
    stream_ = stub_.Run(&context_);
  }
  ~Controller() { context_.TryCancel(); }

  void Open(uint64_t stream, int slot) { Add(stream)->mutable_open()->set_slot(slot); }
  void Command(uint64_t stream, const std::string& bytes) { Add(stream)->set_command(bytes); }
  void HalfClose(uint64_t stream) { Add(stream)->mutable_half_close(); }
  void CancelStream(uint64_t stream) { Add(stream)->mutable_cancel(); }
  void Send(const std::string& shared = "") {
    commands_.set_shared(shared);
    EXPECT_TRUE(stream_->Write(commands_));
    commands_.Clear();
  }
  // The next entry, of this message or the next.
  std::optional<v1::StreamEvent> Receive() {
    while (next_ == events_.entries_size()) {
      next_ = 0;
      if (!stream_->Read(&events_)) return std::nullopt;
    }
    return events_.entries(next_++);
  }
  int entries_of_message() const { return events_.entries_size(); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() {
    stream_->WritesDone();
    while (Receive()) continue;
    return stream_->Finish();
  }

 private:
  v1::StreamCommand* Add(uint64_t stream) {
    v1::StreamCommand* entry = commands_.add_entries();
    entry->set_stream(stream);
    return entry;
  }

  v1::Relay::Stub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::HostCommands, v1::HostEvents>> stream_;
  v1::HostCommands commands_;
  v1::HostEvents events_;
  int next_ = 0;
};

std::string Seq(uint64_t seq) {
  v1::Command command;
  command.set_seq(seq);
  return command.SerializeAsString();
}

uint64_t SeqOf(const std::optional<v1::StreamEvent>& entry) {
  v1::Event event;
  if (!entry || !entry->has_event() || !event.ParseFromString(entry->event())) return 0;
  return event.seq();
}

class RelayTest : public testing::Test {
 protected:
  static constexpr int kWorkers = 3;

  RelayTest() {
    for (int slot = 0; slot < kWorkers; ++slot) workers_[slot].WriteEndpoint(state_.path(), slot);
    auto relay = Relay::Start(
        {"127.0.0.1", 0}, {.state_dir = state_.path(), .workers = 4, .open = true},
        [this](int index, pid_t pid, const std::string& reason) {
          ended_.push_back(absl::StrCat(index, " ", pid, " ", reason));
        },
        &stacks_);
    EXPECT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
    controller_ = std::make_unique<Controller>(relay_->port());
  }

  absl::Status EndWorker(int slot, const std::string& incarnation) {
    v1::Relay::Stub stub(grpc::CreateChannel("127.0.0.1:" + std::to_string(relay_->port()),
                                             grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
    v1::EndWorkerRequest request;
    request.set_slot(slot);
    request.set_incarnation(incarnation);
    request.set_reason("it hangs");
    v1::EndWorkerResponse response;
    return FromGrpc(stub.EndWorker(&context, request, &response));
  }

  support::ScratchFolder state_;
  std::vector<std::string> ended_;
  EchoWorker workers_[kWorkers];
  StackTaker stacks_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Controller> controller_;
};

// Invariant supervisor-6.
TEST_F(RelayTest, EachWorkerGetsItsOwnCommandsAfterTheSharedPartInOrder) {
  v1::Command shared;
  shared.mutable_fence()->set_job("job-1");
  for (int slot = 0; slot < kWorkers; ++slot) controller_->Open(10 + slot, slot);
  for (uint64_t seq = 1; seq <= 20; ++seq) {
    for (int slot = 0; slot < kWorkers; ++slot)
      controller_->Command(10 + slot, Seq(100 * slot + seq));
    controller_->Send(shared.SerializeAsString());
  }
  std::map<uint64_t, uint64_t> last;
  for (int i = 0; i < 20 * kWorkers; ++i) {
    const auto entry = controller_->Receive();
    ASSERT_TRUE(entry.has_value());
    const uint64_t slot = entry->stream() - 10;
    EXPECT_EQ(SeqOf(entry), 100 * slot + ++last[slot]);
  }
  for (int slot = 0; slot < kWorkers; ++slot) {
    const auto commands = workers_[slot].commands();
    ASSERT_EQ(commands.size(), 20u);
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(commands[i].fence().job(), "job-1");
      EXPECT_EQ(commands[i].seq(), 100 * slot + i + 1);
    }
  }
}

TEST_F(RelayTest, AnswersToOneMessageTravelTogether) {
  for (int slot = 0; slot < kWorkers; ++slot) controller_->Open(slot, slot);
  bool together = false;
  for (uint64_t seq = 1; !together && seq <= 1000; ++seq) {  // a busy host may take too long
    for (int slot = 0; slot < kWorkers; ++slot) controller_->Command(slot, Seq(seq));
    controller_->Send();
    for (int slot = 0; slot < kWorkers; ++slot) {
      ASSERT_TRUE(controller_->Receive().has_value());
      together = together || controller_->entries_of_message() == kWorkers;
    }
  }
  EXPECT_TRUE(together);
}

// Invariant supervisor-8.
TEST_F(RelayTest, AnAnswerWaitsForAWorkerThatHangsButNotForLong) {
  workers_[1].Hold(true);
  controller_->Open(1, 0);
  controller_->Open(2, 1);
  controller_->Command(1, Seq(5));
  controller_->Command(2, Seq(6));
  const auto sent = std::chrono::system_clock::now();
  controller_->Send();
  const auto first = controller_->Receive();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->stream(), 1u);
  EXPECT_GE(std::chrono::system_clock::now() - sent, kLongestWait);
  workers_[1].Hold(false);
  EXPECT_EQ(SeqOf(controller_->Receive()), 6u);
}

TEST_F(RelayTest, UnknownSlotsAndWorkersThatHaveNotStartedAreRefusedByName) {
  controller_->Open(1, 9);
  controller_->Open(2, 3);
  controller_->Open(3, 0);
  controller_->Command(3, Seq(1));
  controller_->Send();
  auto closed = controller_->Receive();
  ASSERT_TRUE(closed && closed->has_closed());
  EXPECT_EQ(closed->stream(), 1u);
  EXPECT_EQ(closed->closed().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(closed->closed().message(),
            "no worker of slot 9 here: this supervisor runs slots 0 to 3");
  closed = controller_->Receive();
  ASSERT_TRUE(closed && closed->has_closed());
  EXPECT_EQ(closed->stream(), 2u);
  EXPECT_EQ(closed->closed().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(closed->closed().message().find("worker-3.json"), std::string::npos);
  EXPECT_EQ(SeqOf(controller_->Receive()), 1u);
}

// Invariant supervisor-9: a word about a process that has ended is about no other.
TEST_F(RelayTest, EndsTheProcessThatWasMeantAndNoOther) {
  EXPECT_EQ(EndWorker(1, "echo-1"), absl::OkStatus());
  EXPECT_EQ(ended_, std::vector<std::string>{absl::StrCat("1 ", getpid(), " it hangs")});
  const absl::Status earlier = EndWorker(1, "echo-0");
  EXPECT_EQ(earlier.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(earlier.message(),
            "the worker of slot 1 is process echo-1, not echo-0: that one has ended");
  EXPECT_EQ(EndWorker(9, "echo-9").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(EndWorker(3, "echo-3").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ended_.size(), 1u);
}

// Invariant supervisor-10: the number in an endpoint file may be that of any process by now.
TEST_F(RelayTest, ReadsNoProcessThatIsNotItsWorker) {
  v1::Relay::Stub stub(grpc::CreateChannel("127.0.0.1:" + std::to_string(relay_->port()),
                                           grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::StacksRequest request;
  request.set_slot(1);
  request.set_incarnation("echo-1");
  request.set_limit_ms(1000);
  request.set_most_bytes(1024);
  v1::StacksResponse response;
  const grpc::Status status = stub.Stacks(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(status.error_message().find("no worker of this supervisor any more"), std::string::npos)
      << status.error_message();
  EXPECT_TRUE(response.text().empty());
}

TEST_F(RelayTest, HalfCloseReachesTheWorkerAfterItsCommands) {
  controller_->Open(1, 0);
  controller_->Command(1, Seq(7));
  controller_->HalfClose(1);
  controller_->Send();
  EXPECT_EQ(SeqOf(controller_->Receive()), 7u);
  const auto closed = controller_->Receive();
  ASSERT_TRUE(closed && closed->has_closed());
  EXPECT_EQ(closed->closed().code(), 0);
  EXPECT_EQ(workers_[0].cancelled(), 0);
}

TEST_F(RelayTest, CancelReachesThatWorkerAlone) {
  controller_->Open(1, 0);
  controller_->Open(2, 1);
  controller_->Send();
  ASSERT_TRUE(Eventually([&] { return workers_[0].open() == 1 && workers_[1].open() == 1; }));
  controller_->CancelStream(1);
  controller_->Command(2, Seq(3));
  controller_->Send();
  bool closed = false, answered = false;
  for (int i = 0; i < 2; ++i) {
    const auto entry = controller_->Receive();
    ASSERT_TRUE(entry.has_value());
    closed = closed || (entry->stream() == 1 && entry->closed().code() == 1);
    answered = answered || (entry->stream() == 2 && SeqOf(entry) == 3);
  }
  EXPECT_TRUE(closed && answered);
  EXPECT_TRUE(Eventually([&] { return workers_[0].cancelled() == 1; }));
  EXPECT_EQ(workers_[1].open(), 1);
}

TEST_F(RelayTest, StreamsOfAControllerThatIsGoneAreCancelled) {
  controller_->Open(1, 0);
  controller_->Open(2, 1);
  controller_->Send();
  Controller other(relay_->port());
  other.Open(1, 2);
  other.Send();
  ASSERT_TRUE(Eventually([&] {
    return workers_[0].open() == 1 && workers_[1].open() == 1 && workers_[2].open() == 1;
  }));
  controller_->Cancel();
  EXPECT_TRUE(Eventually([&] { return workers_[0].cancelled() + workers_[1].cancelled() == 2; }));
  other.Command(1, Seq(4));
  other.Send();
  EXPECT_EQ(SeqOf(other.Receive()), 4u);
}

TEST_F(RelayTest, HalfClosingTheHostEndsItAndWhatIsStillOpen) {
  controller_->Open(1, 0);
  controller_->Send();
  ASSERT_TRUE(Eventually([&] { return workers_[0].open() == 1; }));
  EXPECT_TRUE(controller_->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return workers_[0].cancelled() == 1; }));
}

TEST_F(RelayTest, AWorkerThatWasStartedAgainIsDialledWhereItServesNow) {
  controller_->Open(1, 0);
  controller_->Command(1, Seq(1));
  controller_->HalfClose(1);
  controller_->Send();
  EXPECT_EQ(SeqOf(controller_->Receive()), 1u);
  EXPECT_TRUE(controller_->Receive()->has_closed());
  EchoWorker again;
  again.WriteEndpoint(state_.path(), 0);
  controller_->Open(2, 0);
  controller_->Command(2, Seq(2));
  controller_->Send();
  EXPECT_EQ(SeqOf(controller_->Receive()), 2u);
  EXPECT_EQ(again.commands().size(), 1u);
}

// Invariant supervisor-7.
TEST_F(RelayTest, AKilledProcessClosesItsStreamAtOnceAndNoOther) {
  const std::string file = state_.path() + "/worker-3.json";
  std::vector<std::string> words = {COXSWAIN_FAKE_WORKER,
                                    "--controller",
                                    "127.0.0.1:1",
                                    "--listen",
                                    "127.0.0.1:0",
                                    "--metrics",
                                    "",
                                    "--threads",
                                    "1",
                                    "--endpoint-file",
                                    file,
                                    "--open"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  ASSERT_TRUE(Eventually([&] { return ReadEndpoint(state_.path(), 3).ok(); }));
  controller_->Open(1, 3);
  controller_->Open(2, 0);
  controller_->Command(2, Seq(1));
  controller_->Send();
  EXPECT_EQ(SeqOf(controller_->Receive()), 1u);
  kill(pid, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  waitpid(pid, nullptr, 0);
  const auto closed = controller_->Receive();
  ASSERT_TRUE(closed && closed->has_closed());
  EXPECT_EQ(closed->stream(), 1u);
  EXPECT_EQ(closed->closed().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(10));  // no keepalive
  controller_->Command(2, Seq(2));
  controller_->Send();
  EXPECT_EQ(SeqOf(controller_->Receive()), 2u);
}

// Invariant supervisor-11.
TEST_F(RelayTest, OnlyTheControllerOfItsJoinTokenIsServed) {
  const std::string file = state_.path() + "/join-token", secret(64, 's');
  ASSERT_TRUE(access::WriteSecret(file, secret).ok());
  const auto relay = Relay::Start(
      {"127.0.0.1", 0}, {.state_dir = state_.path(), .workers = 4, .join_token_file = file},
      [this](int, pid_t, const std::string&) { ended_.emplace_back(); }, &stacks_);
  ASSERT_TRUE(relay.ok()) << relay.status();
  const auto proof = [](const std::string& held, access::Role role) {
    return access::kJoin + access::JoinProof({held}, role, time(nullptr));
  };
  const std::map<std::string, grpc::StatusCode> callers = {
      {"", grpc::StatusCode::PERMISSION_DENIED},
      {"Bearer cox_1", grpc::StatusCode::UNAUTHENTICATED},
      {proof(std::string(64, 'o'), access::Role::kController), grpc::StatusCode::UNAUTHENTICATED},
      {proof(secret, access::Role::kWorker), grpc::StatusCode::PERMISSION_DENIED},
      {proof(secret, access::Role::kSupervisor), grpc::StatusCode::PERMISSION_DENIED},
      {proof(secret, access::Role::kController), grpc::StatusCode::NOT_FOUND}};
  const auto& service = *v1::HostCommands::descriptor()->file()->service(0);
  ASSERT_EQ(service.method_count(), 3) << "Run, EndWorker, Stacks";
  v1::Relay::Stub stub(grpc::CreateChannel("127.0.0.1:" + std::to_string((*relay)->port()),
                                           grpc::InsecureChannelCredentials()));
  for (const auto& [authorization, expected] : callers) {
    grpc::ClientContext contexts[3];
    for (grpc::ClientContext& context : contexts) {
      context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
      if (!authorization.empty()) context.AddMetadata(access::kAuthorization, authorization);
    }
    v1::EndWorkerRequest end;
    end.set_incarnation("another");
    v1::EndWorkerResponse ended;
    EXPECT_EQ(stub.EndWorker(&contexts[0], end, &ended).error_code(), expected) << authorization;
    v1::StacksRequest stacks;
    stacks.set_incarnation("another");
    stacks.set_limit_ms(1000);
    stacks.set_most_bytes(1024);
    v1::StacksResponse taken;
    EXPECT_EQ(stub.Stacks(&contexts[1], stacks, &taken).error_code(), expected) << authorization;
    auto stream = stub.Run(&contexts[2]);
    stream->WritesDone();
    v1::HostEvents events;
    while (stream->Read(&events)) continue;
    const bool let_in = expected == grpc::StatusCode::NOT_FOUND;
    EXPECT_EQ(stream->Finish().error_code(), let_in ? grpc::StatusCode::OK : expected)
        << authorization;
  }
  EXPECT_TRUE(ended_.empty());
}

TEST(RelayStartTest, OtherThanLoopbackNeedsCertificates) {
  const auto relay = Relay::Start({"0.0.0.0", 0}, {.state_dir = "."}, nullptr, nullptr);
  EXPECT_EQ(relay.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(relay.status().message().find("--tls-cert"), std::string::npos) << relay.status();
}

}  // namespace
}  // namespace coxswain::supervisor
