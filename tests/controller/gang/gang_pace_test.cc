#include "controller/gang/gang_pace.h"

#include <gtest/gtest.h>

#include "controller/gang/answer_queue.h"
#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::gang {
namespace {

// A step in which rank r computed seconds[r], then waited for the slowest; each was idle before.
InFlight Step(const std::vector<double>& seconds, double idle = 0) {
  InFlight command;
  const double all = *std::max_element(seconds.begin(), seconds.end()) + 0.1;
  for (const double s : seconds) {
    v1::Done done;
    done.mutable_seconds()->set_forward(s / 4);
    done.mutable_seconds()->set_backward(s * 3 / 4);
    done.mutable_seconds()->set_step(all);
    done.set_idle_seconds(idle);
    command.results.emplace_back(done);
  }
  return command;
}

void Steps(GangPace* pace, int64_t count, const std::vector<double>& seconds) {
  for (int64_t i = 0; i < count; ++i) pace->Add(Step(seconds));
}

constexpr int64_t kAll = GangPace::kWindowSteps * static_cast<int64_t>(GangPace::kWindows);

TEST(GangPaceTest, NamesTheSlowestAndHowMuchSlowerThanItsPeers) {
  GangPace pace(4);
  EXPECT_EQ(pace.summary().steps, 0);
  Steps(&pace, 3, {1.0, 2.0, 1.5, 1.25});
  const GangPace::Summary summary = pace.summary();
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(summary.slowest, 1);
  EXPECT_DOUBLE_EQ(summary.ranks[1].compute_seconds, 2.0);
  EXPECT_DOUBLE_EQ(summary.peer_median_seconds, 1.25);
  EXPECT_DOUBLE_EQ(summary.slowest_ratio(), 1.6);
}

TEST(GangPaceTest, ReportsOnceAfterFiveSlowWindowsInARow) {
  GangPace pace(3);
  Steps(&pace, kAll - 1, {1.0, 1.0, 1.6});
  EXPECT_EQ(pace.NewStraggler(), std::nullopt);
  Steps(&pace, 1, {1.0, 1.0, 1.6});
  EXPECT_EQ(pace.NewStraggler(), 2);
  EXPECT_EQ(pace.NewStraggler(), std::nullopt);
  Steps(&pace, kAll, {1.0, 1.0, 1.6});
  EXPECT_EQ(pace.NewStraggler(), std::nullopt);
}

TEST(GangPaceTest, OneQuickWindowOrAFactorOfOneAndAHalfIsNoStraggler) {
  GangPace recovered(2);
  Steps(&recovered, kAll - GangPace::kWindowSteps, {1.0, 2.0});
  Steps(&recovered, GangPace::kWindowSteps, {1.0, 1.2});
  EXPECT_EQ(recovered.NewStraggler(), std::nullopt);
  GangPace near(2);
  Steps(&near, kAll, {1.0, 1.5});
  EXPECT_EQ(near.NewStraggler(), std::nullopt);
}

TEST(GangPaceTest, IdleIsTheMedianShareOfTheTime) {
  GangPace pace(2);
  pace.Add(Step({0.9, 0.9}, 1.0));
  EXPECT_DOUBLE_EQ(pace.summary().control_idle_ratio, 0.5);
  EXPECT_DOUBLE_EQ(pace.summary().ranks[0].idle_seconds, 1.0);
}

TEST(GangPaceTest, AGangOfOneHasNoSlowest) {
  GangPace pace(1);
  Steps(&pace, kAll, {1.0});
  EXPECT_EQ(pace.summary().slowest, -1);
  EXPECT_EQ(pace.summary().slowest_ratio(), 1);
  EXPECT_EQ(pace.NewStraggler(), std::nullopt);
}

class AnswerQueueTest : public testing::Test {
 protected:
  void Push(bool done = true) {
    v1::Event event;
    if (done) {
      event.mutable_done();
    } else {
      event.mutable_failed();
    }
    queue_.Push(0, event);
  }
  // How often the loop was woken since.
  int Wakes() {
    while (loop_.RunReady()) {
    }
    return std::exchange(wakes_, 0);
  }

  sim::VirtualClock clock_;
  Loop loop_{&clock_, Loop::Offloading::kInline};
  int wakes_ = 0;
  AnswerQueue queue_{&loop_, [this] { ++wakes_; }};
};

TEST_F(AnswerQueueTest, WakesTheLoopOnceWhenEnoughHaveCome) {
  queue_.Await(3);
  Push();
  Push();
  EXPECT_EQ(Wakes(), 0);
  Push();
  Push();
  EXPECT_EQ(Wakes(), 1);
  EXPECT_EQ(queue_.Take().size(), 4u);
}

TEST_F(AnswerQueueTest, AFailureWakesAtOnceAndSoDoesALowerGoal) {
  queue_.Await(9);
  Push();
  Push(/*done=*/false);
  EXPECT_EQ(Wakes(), 1);
  EXPECT_EQ(queue_.Take().size(), 2u);
  Push();
  EXPECT_EQ(Wakes(), 0);
  queue_.Await(1);
  EXPECT_EQ(Wakes(), 1);
}

}  // namespace
}  // namespace coxswain::gang
