#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "common/plan/checks/plan_bytes.h"
#include "coxswain/v1/plan.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/rpc/calls.h"
#include "tests/support/scratch_folder.h"
#include "worker/agent/agent.h"

namespace coxswain::fuzz {
namespace {

constexpr std::chrono::seconds kAnswersWithin{20};

struct Sink : agent::EventSink {
  void Send(const v1::Event&) override {}
  void Close(const absl::Status&) override {}
};

agent::AgentOptions Options() {
  agent::AgentOptions options;
  options.incarnation = "fuzz";
  options.host = "host";
  options.on_abort_deadline = [](const std::string& why) { Expect(false, "it ends: " + why); };
  options.on_device_lost = [](const std::string&) {};
  return options;
}

class Worker : public Calls {
 public:
  size_t count() const override { return 9; }
  void Play(size_t method, std::string_view message) override {
    using Method = void (Worker::*)(const std::string&);
    constexpr std::array<Method, 9> kMethods = {
        &Worker::Prepare, &Worker::Connect, &Worker::Run,   &Worker::SaveShard, &Worker::Inspect,
        &Worker::Inspect, &Worker::Inspect, &Worker::Abort, &Worker::Release};
    (this->*kMethods[method])(std::string(message));
  }

 private:
  // A callback that tells the future; both live until it was called.
  template <typename T>
  auto Answer() {
    auto promise = std::make_shared<std::promise<void>>();
    answer_ = promise->get_future();
    return [promise](const T&) { promise->set_value(); };
  }
  void Await() {
    Expect(answer_.wait_for(kAnswersWithin) == std::future_status::ready, "a worker answers");
  }

  void Prepare(const std::string& message) {
    v1::PrepareRequest request;
    if (!Read(message, &request)) return;
    agent_.Prepare(request, Answer<absl::StatusOr<v1::PrepareResponse>>());
    Await();
  }
  // A plan is refused unless its bytes are those that this build would write, and every fence
  // unless it has their hash: neither is what a change of some bytes would find.
  void MakeCanonical(v1::PrepareRequest* request) {
    v1::Plan plan;
    if (plan.ParseFromString(request->plan())) {
      plan.DiscardUnknownFields();
      request->set_plan(plan.SerializeAsString());
    }
    plan_hash_ = plan::PlanHash(request->plan());
  }
  template <typename Request>
  bool Read(const std::string& message, Request* request) {
    if (!request->ParseFromString(message)) return false;
    if constexpr (std::is_same_v<Request, v1::PrepareRequest>) MakeCanonical(request);
    if (request->fence().plan_hash() == "=") request->mutable_fence()->set_plan_hash(plan_hash_);
    return true;
  }
  // The other ranks say nothing but what is in the message.
  void Connect(const std::string& message) {
    v1::ConnectRequest request;
    if (!Read(message, &request)) return;
    const auto started = agent_.Connect(
        request, [](const std::string&, const std::string&) {},
        Answer<absl::StatusOr<agent::Agent::Connected>>());
    if (!started.ok()) return;
    (*started)->Deliver(request.key(), request.value());
    (*started)->Cancel("the controller closed the stream");
    Await();
  }
  void Run(const std::string& message) {
    v1::Command command;
    if (!Read(message, &command)) return;
    (void)agent_.Submit(sink_, command);
  }
  void SaveShard(const std::string& message) {
    v1::SaveShardRequest request;
    if (!Read(message, &request)) return;
    static const support::ScratchFolder folder;
    request.set_directory(folder.path());
    agent_.SaveShard(request, Answer<absl::StatusOr<v1::SaveShardResponse>>());
    Await();
  }
  // Logs, Inspect and Dump read what there is, whatever is asked.
  void Inspect(const std::string&) {
    Expect(agent_.Inspect().IsInitialized(), "an answer is a message");
    Expect(!agent_.DumpJson().empty(), "a dump says something");
  }
  void Abort(const std::string& message) {
    v1::AbortRequest request;
    if (!Read(message, &request)) return;
    agent_.Abort(request, Answer<absl::Status>());
    Await();
  }
  void Release(const std::string& message) {
    v1::ReleaseRequest request;
    if (!Read(message, &request)) return;
    agent_.Release(request, Answer<absl::Status>());
    Await();
  }

  std::future<void> answer_;
  std::string plan_hash_;  // of the plan sent last
  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  agent::WorkerMetrics metrics_;
  agent::Agent agent_{Options(), &metrics_};
};

}  // namespace

std::unique_ptr<Calls> WorkerCalls() { return std::make_unique<Worker>(); }

}  // namespace coxswain::fuzz
