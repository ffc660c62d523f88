// The operations of the Jobs service over a simulated cluster, without gRPC.
#ifndef COXSWAIN_TESTS_CONTROLLER_API_OPERATIONS_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_API_OPERATIONS_FIXTURE_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "controller/access/tokens.h"
#include "controller/api/arguments.h"
#include "controller/api/context.h"
#include "controller/api/operations.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::api {

// The receiving end of a streaming operation, without gRPC.

template <typename Response>
class RecordingSink : public Sink<Response> {
 public:
  void Send(const Response& response) override {
    if (open()) received.push_back(response);
  }
  void Finish(const absl::Status& end) override {
    if (!status) status = end;
  }
  bool open() const override { return !status.has_value() && !cancelled; }
  size_t pending() const override { return 0; }
  void OnRoom(std::function<void()> callback) override { room = std::move(callback); }

  std::vector<Response> received;
  std::optional<absl::Status> status;
  bool cancelled = false;
  std::function<void()> room;
};

class OperationsTest : public support::JobTest {
 protected:
  OperationsTest() : sim_(SlowSteps()) {
    EXPECT_TRUE(sim_.files().MakeDirs("/model").ok());
    EXPECT_TRUE(sim_.files().WriteDurably("/model/config.json", "{}").ok());
    EXPECT_TRUE(sim_.files().WriteDurably("/model/model.safetensors", "").ok());
    Wire();
  }
  ~OperationsTest() override {
    for (const auto& end : ends_) end();
  }
  void Wire() {
    context_.deps = sim_.deps();
    context_.jobs = &sim_.jobs();
    context_.events = &events_;
    context_.tokens = &tokens_;
    context_.build.set_version("1.2.3");
    context_.plan = [](const config::JobSpec& spec, const driver::WorkerFacts&,
                       const std::function<bool()>&) -> absl::StatusOr<v1::PlanResponse> {
      v1::PlanResponse response;
      response.set_text("plan of " + spec.name);
      return response;
    };
    sim_.deps().journal->OnEvents(
        [this](const std::set<std::string>& jobs) { events_.Notify(jobs); });
  }

  absl::StatusOr<v1::PlanResponse> CallPlan(const v1::PlanRequest& request) {
    std::optional<absl::StatusOr<v1::PlanResponse>> result;
    Plan(
        context_, request, {.role = access::Role::kOperator}, [] { return false; },
        [&](absl::StatusOr<v1::PlanResponse> response) { result = std::move(response); });
    sim_.RunUntil([&] { return result.has_value(); }, 10'000);
    return result.value_or(absl::InternalError("no reply"));
  }
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(void (*operation)(Context&, const Request&, Reply<Response>),
                                const Request& request) {
    if (absl::Status wrong = CheckArguments(request); !wrong.ok()) return wrong;
    std::optional<absl::StatusOr<Response>> result;
    operation(context_, request,
              [&](absl::StatusOr<Response> response) { result = std::move(response); });
    sim_.RunUntil([&] { return result.has_value(); }, 10'000);
    return result.value_or(absl::InternalError("no reply"));
  }
  // Of an operation that asks who calls.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      void (*operation)(Context&, const Request&, const access::Principal&, Reply<Response>),
      const Request& request, const access::Principal& caller = {.role = access::Role::kOperator}) {
    if (absl::Status wrong = CheckArguments(request); !wrong.ok()) return wrong;
    std::optional<absl::StatusOr<Response>> result;
    operation(context_, request, caller,
              [&](absl::StatusOr<Response> response) { result = std::move(response); });
    sim_.RunUntil([&] { return result.has_value(); }, 10'000);
    return result.value_or(absl::InternalError("no reply"));
  }
  template <typename Request, typename Response>
  std::shared_ptr<RecordingSink<Response>> Open(void (*operation)(Context&, const Request&,
                                                                  std::shared_ptr<Sink<Response>>),
                                                const Request& request) {
    auto sink = std::make_shared<RecordingSink<Response>>();
    ends_.push_back([sink] { sink->room = nullptr; });
    if (const absl::Status wrong = CheckArguments(request); !wrong.ok()) {
      sink->Finish(wrong);
      return sink;
    }
    operation(context_, request, sink);
    return sink;
  }
  v1::SubmitRequest SubmitOf(const std::string& name, const std::string& key = "") {
    v1::SubmitRequest request;
    request.set_yaml(sim::JobYaml({.name = name}));
    request.set_yaml_path("/jobs/job.yaml");
    request.set_idempotency_key(key);
    return request;
  }
  // What came of one artifact, and how the call ended.
  std::pair<std::string, absl::Status> FetchAll(const std::string& job, const std::string& name) {
    v1::FetchRequest request = Named<v1::FetchRequest>(job);
    request.set_name(name);
    auto sink = Open(Fetch, request);
    for (int i = 0; i < 100 && !sink->status; ++i) {
      sim_.RunFor(10);
      if (sink->room) sink->room();
    }
    std::string received;
    for (const auto& chunk : sink->received) {
      EXPECT_LE(chunk.data().size(), size_t{1} << 20);
      received += chunk.data();
    }
    return {received, sink->status.value_or(absl::InternalError("no end"))};
  }
  template <typename Request>
  Request Named(const std::string& job) {
    Request request;
    request.set_job(job);
    return request;
  }

  sim::Simulation sim_;
  std::vector<std::function<void()>> ends_;  // a call that has ended holds its operation no more
  EventHub events_;
  access::Tokens tokens_;
  Context context_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_TESTS_CONTROLLER_API_OPERATIONS_FIXTURE_H_
