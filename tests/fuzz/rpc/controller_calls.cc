#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/access/tokens.h"
#include "controller/api/arguments.h"
#include "controller/api/operations.h"
#include "controller/uploads/upload_store.h"
#include "tests/controller/api/operations_fixture.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/rpc/calls.h"
#include "tests/sim/simulation.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::fuzz {
namespace {

constexpr int64_t kAnswersWithinMs = 120'000;  // of virtual time
constexpr int64_t kStreamsForMs = 100;

class Controller : public Calls {
 public:
  Controller() {
    Expect(sim_.files().MakeDirs("/model").ok(), "a model folder");
    Expect(sim_.files().WriteDurably("/model/config.json", "{}").ok(), "a configuration");
    Expect(sim_.files().WriteDurably("/model/model.safetensors", "").ok(), "weights");
    context_.deps = sim_.deps();
    context_.jobs = &sim_.jobs();
    context_.events = &events_;
    context_.tokens = &tokens_;
    auto uploads =
        uploads::UploadStore::Open({.root = folder_.path(), .most_bytes_per_owner = 1000});
    Expect(uploads.ok(), "a folder for uploads");
    uploads_ = *std::move(uploads);
    context_.uploads = uploads_.get();
    context_.plan = [](const config::JobSpec&, const driver::WorkerFacts&,
                       const std::function<bool()>&) { return v1::PlanResponse(); };
    sim_.deps().journal->OnEvents(
        [this](const std::set<std::string>& jobs) { events_.Notify(jobs); });
    sim_.RunUntilState(sim_.Submit({.name = "runs"}), v1::JOB_STATE_RUNNING);
    Fill();
  }
  ~Controller() override {
    for (const auto& end : ends_) end();
    sim_.RunFor(kStreamsForMs);
    if (!registered_) Expect(sim_.Violations().empty(), "the rules of the simulation are kept");
  }
  size_t count() const override { return methods_.size(); }
  void Play(size_t method, std::string_view message) override {
    methods_[method](std::string(message));
  }

 private:
  void Fill() {
#define COXSWAIN_UNARY(Method, Request, Response)            \
  methods_.push_back([this](const std::string& message) {    \
    Unary<v1::Request, v1::Response>(message, &api::Method); \
  });
#define COXSWAIN_STREAM(Method, Request, Response)            \
  methods_.push_back([this](const std::string& message) {     \
    Stream<v1::Request, v1::Response>(message, &api::Method); \
  });
#include "controller/api/jobs_methods.inc"
#undef COXSWAIN_UNARY
#undef COXSWAIN_STREAM
    methods_.push_back([this](const std::string& message) {
      v1::RegisterRequest request;
      if (!Read(message, &request)) return;
      registered_ = true;
      (void)sim_.registry().Register(request);
      sim_.RunFor(kStreamsForMs);
    });
    methods_.push_back([this](const std::string& message) {
      v1::HeartbeatRequest request;
      if (!Read(message, &request)) return;
      registered_ = true;
      (void)sim_.registry().Beat(request, sim_.registry().OpenBeatStream());
      sim_.RunFor(kStreamsForMs);
    });
  }

  template <typename Request>
  static bool Read(const std::string& message, Request* request) {
    return request->ParseFromString(message) && api::CheckArguments(*request).ok();
  }

  template <typename Request, typename Response, typename Operation>
  void Unary(const std::string& message, Operation operation) {
    Request request;
    if (!Read(message, &request)) return;
    // Of this call and of whoever would answer it late.
    const auto answered = std::make_shared<bool>(false);
    const api::Reply<Response> reply = [answered](const absl::StatusOr<Response>& response) {
      Expect(!*answered, "an operation answers once");
      *answered = true;
      if (response.ok()) Expect(response->IsInitialized(), "an answer is a message");
    };
    if constexpr (std::is_invocable_v<Operation, api::Context&, const Request&,
                                      const access::Principal&, api::Gone, api::Reply<Response>>) {
      operation(
          context_, request, {.role = access::Role::kOperator}, [] { return false; }, reply);
    } else if constexpr (std::is_invocable_v<Operation, api::Context&, const Request&,
                                             const access::Principal&, api::Reply<Response>>) {
      operation(context_, request, {.role = access::Role::kOperator}, reply);
    } else {
      operation(context_, request, reply);
    }
    sim_.RunUntil([answered] { return *answered; }, kAnswersWithinMs);
    Expect(*answered, "an operation answers");
  }

  template <typename Request, typename Response, typename Operation>
  void Stream(const std::string& message, Operation operation) {
    Request request;
    if (!Read(message, &request)) return;
    const auto sink = std::make_shared<api::RecordingSink<Response>>();
    operation(context_, request, sink);
    sim_.RunFor(kStreamsForMs);
    sink->cancelled = true;
    if (sink->room) sink->room();
    ends_.push_back([sink] { sink->room = nullptr; });
  }

  sim::Simulation sim_{sim::Simulation::Options()};
  api::EventHub events_;
  access::Tokens tokens_;
  const support::ScratchFolder folder_;
  std::unique_ptr<uploads::UploadStore> uploads_;
  api::Context context_;
  std::vector<std::function<void(const std::string&)>> methods_;
  std::vector<std::function<void()>> ends_;
  // Whoever can register speaks for a worker: what such a one says is not held against the rules.
  bool registered_ = false;
};

}  // namespace

std::unique_ptr<Calls> ControllerCalls() { return std::make_unique<Controller>(); }

}  // namespace coxswain::fuzz
