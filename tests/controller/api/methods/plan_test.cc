// A plan that nobody waits for any more stops, and gives its lane to the next. Invariant
// controller-4.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "controller/api/operations.h"
#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/simulation.h"

namespace coxswain::api {
namespace {

// The real loop with its lanes.
class PlanTest : public testing::Test {
 protected:
  PlanTest()
      : workers_(&agenda_, &files_, 1),
        loop_(&clock_, Loop::Offloading::kToLanes),
        registry_(&loop_, &workers_, {}) {
    EXPECT_TRUE(files_.MakeDirs("/model").ok());
    context_.deps.loop = &loop_;
    context_.deps.registry = &registry_;
    context_.deps.files = &files_;
    context_.plan =
        [this](const config::JobSpec& spec, const driver::WorkerFacts&,
               const std::function<bool()>& cancelled) -> absl::StatusOr<v1::PlanResponse> {
      ++begun_;
      if (spec.name == "long") {
        while (!cancelled()) std::this_thread::yield();
        return absl::CancelledError("as asked");
      }
      v1::PlanResponse response;
      response.set_text("plan of " + spec.name);
      return response;
    };
  }
  // Asks on the loop; the code of the answer goes to `answer`.
  void Ask(const std::string& name, std::atomic<bool>* gone,
           std::function<void(const absl::Status&)> answer) {
    loop_.Post([this, name, gone, answer = std::move(answer)] {
      v1::PlanRequest request;
      request.set_yaml(sim::JobYaml({.name = name}));
      request.set_yaml_path("/jobs/job.yaml");
      Plan(
          context_, request, {.role = access::Role::kOperator}, [gone] { return gone->load(); },
          [answer](const absl::StatusOr<v1::PlanResponse>& response) {
            answer(response.status());
          });
    });
  }

  sim::VirtualClock agenda_clock_;
  sim::Agenda agenda_{&agenda_clock_};
  sim::MemoryFiles files_;
  sim::FakeWorkers workers_;
  SystemClock clock_;
  // Of plans, which may go on until the loop has ended.
  std::atomic<bool> gone_ = false, here_ = false;
  std::atomic<int> begun_ = 0;
  Loop loop_;
  scheduler::Registry registry_;
  Context context_;
};

TEST_F(PlanTest, OnesThatAreCancelledStopAndThoseThatWaitNeverStart) {
  const int threads = Lanes::ThreadsOf(Lane::kPlans);
  std::atomic<bool> over = false;
  int cancelled = 0;
  absl::Status last = absl::UnknownError("no answer");
  for (int i = 0; i < 2 * threads; ++i) {
    Ask("long", &gone_,
        [&](const absl::Status& status) { cancelled += absl::IsCancelled(status); });
  }
  Ask("short", &here_, [&](const absl::Status& status) {
    last = status;
    loop_.Stop();
  });
  std::thread client([&] {  // leaves when every thread of the lane is taken
    while (begun_ < threads && !over) std::this_thread::yield();
    gone_ = true;
  });
  loop_.After(std::chrono::seconds(20), [&] { loop_.Stop(); });
  loop_.Run();
  gone_ = over = true;
  client.join();
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_EQ(begun_, threads + 1) << "one that was cancelled while it waited has started";
  EXPECT_GE(cancelled, threads);
}

}  // namespace
}  // namespace coxswain::api
