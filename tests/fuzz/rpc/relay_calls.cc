#include <chrono>
#include <memory>
#include <set>
#include <string>

#include <grpcpp/create_channel.h>

#include "coxswain/v1/relay_service.grpc.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/rpc/calls.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/supervisor/echo_worker.h"
#include "worker/supervisor/relay.h"

namespace coxswain::fuzz {
namespace {

constexpr std::chrono::seconds kRelayAnswersWithin{20};

// One for all inputs: a relay keeps nothing but its channels. Never destroyed: where a server goes
// while the process ends, gRPC 1.51 may let go of its completion queue twice.
struct Served {
  explicit Served(const support::ScratchFolder& state) {
    worker.WriteEndpoint(state.path(), 0);
    auto started = supervisor::Relay::Start(
        {"127.0.0.1", 0}, {.state_dir = state.path(), .open = true},
        [](int, pid_t, const std::string&) {}, &stacks);
    Expect(started.ok(), "a relay starts: " + started.status().ToString());
    relay = *std::move(started);
    stub = v1::Relay::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(relay->port()),
                                                  grpc::InsecureChannelCredentials()));
  }

  supervisor::EchoWorker worker;
  supervisor::StackTaker stacks;
  std::unique_ptr<supervisor::Relay> relay;
  std::unique_ptr<v1::Relay::Stub> stub;
};

class RelayService : public Calls {
 public:
  size_t count() const override { return 3; }
  void Play(size_t method, std::string_view message) override {
    static const support::ScratchFolder state;
    static const auto* const served = new Served(state);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kRelayAnswersWithin);
    const grpc::Status ended = Call(served->stub.get(), method, &context, std::string(message));
    Expect(ended.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED, "a relay answers");
    Expect(ended.error_code() != grpc::StatusCode::UNAVAILABLE || method > 0, "a relay lives");
  }

 private:
  static grpc::Status Call(v1::Relay::Stub* stub, size_t method, grpc::ClientContext* context,
                           const std::string& message) {
    if (method == 0) return Run(stub, context, message);
    return method == 1 ? EndWorker(stub, context, message) : Stacks(stub, context, message);
  }
  // Whether a worker's stream is opened and ended, so that something comes back.
  static bool Ends(const v1::HostCommands& commands) {
    std::set<uint64_t> opened;
    for (const v1::StreamCommand& entry : commands.entries()) {
      if (entry.has_open()) opened.insert(entry.stream());
      const bool ends = entry.has_half_close() || entry.has_cancel();
      if (ends && opened.contains(entry.stream())) return true;
    }
    return false;
  }
  static grpc::Status Run(v1::Relay::Stub* stub, grpc::ClientContext* context,
                          const std::string& message) {
    v1::HostCommands commands;
    if (!commands.ParseFromString(message)) return grpc::Status::OK;
    const auto stream = stub->Run(context);
    stream->Write(commands);
    v1::HostEvents events;
    if (Ends(commands)) stream->Read(&events);  // the end of what is open would cancel it
    stream->WritesDone();
    while (stream->Read(&events)) continue;
    return stream->Finish();
  }
  static grpc::Status EndWorker(v1::Relay::Stub* stub, grpc::ClientContext* context,
                                const std::string& message) {
    v1::EndWorkerRequest request;
    v1::EndWorkerResponse response;
    if (!request.ParseFromString(message)) return grpc::Status::OK;
    return stub->EndWorker(context, request, &response);
  }
  // The worker is this process, no child of it: nobody is read.
  static grpc::Status Stacks(v1::Relay::Stub* stub, grpc::ClientContext* context,
                             const std::string& message) {
    v1::StacksRequest request;
    v1::StacksResponse response;
    if (!request.ParseFromString(message)) return grpc::Status::OK;
    return stub->Stacks(context, request, &response);
  }
};

}  // namespace

std::unique_ptr<Calls> RelayCalls() { return std::make_unique<RelayService>(); }

}  // namespace coxswain::fuzz
