#include "controller/runtime/loop.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <latch>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain {
namespace {

// Invariant controller-1: what is posted or offloaded from inside a task runs after that task has
// returned, also where the simulator lets the loop do the work itself.
TEST(LoopTest, NoCallbackRunsInsideTheCallThatAskedForIt) {
  for (const auto offloading : {Loop::Offloading::kInline, Loop::Offloading::kToLanes}) {
    const SystemClock clock;
    Loop loop(&clock, offloading);
    std::string order;
    std::thread::id ran_on;
    loop.Post([&] {
      loop.Post([&] { order += "posted "; });
      loop.Offload(
          Lane::kFiles, [] {},
          [&] {
            ran_on = std::this_thread::get_id();
            order += "done ";
            loop.After(std::chrono::milliseconds(0), [&] {
              order += "timer";
              loop.Stop();
            });
          });
      order += "task ";
    });
    loop.Run();
    EXPECT_EQ(order, "task posted done timer");
    EXPECT_EQ(ran_on, std::this_thread::get_id());
  }
}

// Invariant controller-7: an exception of one ends neither thread nor process, and is followed by
// what was to come.
TEST(LoopTest, NoExceptionLeavesATaskOrALane) {
  for (const auto offloading : {Loop::Offloading::kInline, Loop::Offloading::kToLanes}) {
    const SystemClock clock;
    Loop loop(&clock, offloading);
    std::string order;
    loop.Post([] { throw std::bad_alloc(); });
    loop.Post([&] {
      order += "posted ";
      loop.After(std::chrono::milliseconds(0), [] { throw std::runtime_error("a timer's"); });
      loop.Offload(
          Lane::kFiles, [] { throw std::runtime_error("a lane's"); },
          [&] {
            order += "done";
            loop.After(std::chrono::milliseconds(1), [&] { loop.Stop(); });
          });
    });
    loop.Run();
    EXPECT_EQ(order, "posted done");
  }
}

// Invariant controller-2: tasks and timers run while offloaded work is in progress.
TEST(LoopTest, GoesOnWhileOffloadedWorkWaits) {
  const SystemClock clock;
  Loop loop(&clock, Loop::Offloading::kToLanes);
  std::promise<void> release;
  bool released_by_loop = false;
  loop.Offload(
      Lane::kFiles, [&] { release.get_future().wait(); },
      [&] {
        EXPECT_TRUE(released_by_loop);
        loop.Stop();
      });
  loop.Post([&] {
    loop.After(std::chrono::milliseconds(1), [&] {
      released_by_loop = true;
      release.set_value();
    });
  });
  loop.Run();
  EXPECT_TRUE(released_by_loop);
}

constexpr Lane kLanes[] = {Lane::kFiles,     Lane::kPreparation, Lane::kExport,
                           Lane::kPlans,     Lane::kRequests,    Lane::kNames,
                           Lane::kTransfers, Lane::kStore,       Lane::kTrackers};
static_assert(std::size(kLanes) == kNumLanes);

// Work of twice as many pieces as a lane has threads, which waits until it is released.
class FullLane {
 public:
  FullLane(Loop* loop, Lane lane) : began_(Lanes::ThreadsOf(lane)) {
    for (int i = 0; i < 2 * Lanes::ThreadsOf(lane); ++i) {
      const bool first = i < Lanes::ThreadsOf(lane);
      loop->Offload(
          lane,
          [this, first, released = released_] {
            if (first) began_.count_down();
            released.wait();
          },
          [] {});
    }
    began_.wait();
  }
  ~FullLane() { release_.set_value(); }

 private:
  std::latch began_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

// Invariant controller-4.
TEST(LoopTest, ALaneThatIsFullHoldsUpNoOther) {
  for (const Lane full : kLanes) {
    const SystemClock clock;
    Loop loop(&clock, Loop::Offloading::kToLanes);
    FullLane filled(&loop, full);
    size_t done = 0;
    for (const Lane lane : kLanes) {
      if (lane == full) continue;
      loop.Offload(
          lane, [] {},
          [&] {
            if (++done == kNumLanes - 1) loop.Stop();
          });
    }
    loop.After(std::chrono::seconds(20), [&] { loop.Stop(); });
    loop.Run();
    EXPECT_EQ(done, kNumLanes - 1) << "full: " << static_cast<int>(full);
  }
}

TEST(LoopTest, WorkOfALaneStartsInTheOrderGiven) {
  const SystemClock clock;
  std::promise<void> release_all;  // outlives the threads of the loop, which wait for it
  std::latch busy(Lanes::ThreadsOf(Lane::kRequests) - 1);
  std::shared_future<void> ended = release_all.get_future().share();
  Loop loop(&clock, Loop::Offloading::kToLanes);
  for (int i = 0; i + 1 < Lanes::ThreadsOf(Lane::kRequests); ++i) {
    loop.Offload(
        Lane::kRequests, [&] { busy.count_down(), ended.wait(); }, [] {});
  }
  busy.wait();
  std::string order;  // of the one thread that is left
  for (const char* name : {"a", "b", "c", "d"}) {
    loop.Offload(
        Lane::kRequests, [&order, name] { order += name; },
        [&] {
          if (order.size() == 4) loop.Stop();
        });
  }
  loop.Run();
  release_all.set_value();
  EXPECT_EQ(order, "abcd");
}

// Of the lanes of a loop that this thread makes.
std::array<int, kNumLanes> NicenessOfLanes() {
  const SystemClock clock;
  Loop loop(&clock, Loop::Offloading::kToLanes);
  std::array<int, kNumLanes> niceness = {};
  size_t done = 0;
  for (size_t i = 0; i < kNumLanes; ++i) {
    loop.Offload(
        kLanes[i],
        [&niceness, i] { niceness[i] = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); },
        [&] {
          if (++done == kNumLanes) loop.Stop();
        });
  }
  loop.Run();
  return niceness;
}

// What a running job waits for is not behind what takes every core for minutes, and not before the
// loop, however nice the process is.
TEST(LoopTest, FilesAreNicerThanNobodyButTheLoop) {
  const int at_start = getpriority(PRIO_PROCESS, 0);
  if (at_start > 13) GTEST_SKIP() << "niceness ends at 19, and the tests run at " << at_start;
  for (const int own : {at_start, std::max(at_start, 9)}) {
    std::thread([own] {
      ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), own), 0);
      const std::array<int, kNumLanes> niceness = NicenessOfLanes();
      const int files = niceness[static_cast<size_t>(Lane::kFiles)];
      for (const Lane lane : {Lane::kPreparation, Lane::kExport, Lane::kPlans}) {
        EXPECT_LT(files, niceness[static_cast<size_t>(lane)]) << "of a loop at " << own;
      }
      EXPECT_LT(own, files);
    }).join();
  }
}

class LoopTimeTest : public testing::Test {
 protected:
  void Pass(int64_t ms) { clock_.AdvanceTo(clock_.NowNs() + ms * 1'000'000); }
  int64_t stalled_ms() const { return loop_.stalled_ns() / 1'000'000; }

  sim::VirtualClock clock_;
  Loop loop_{&clock_, Loop::Offloading::kInline};
};

TEST_F(LoopTimeTest, WhatWasPostedRunsBeforeTheTimersThatAreDue) {
  std::string order;
  loop_.After(std::chrono::seconds(1), [&] { order += "timer "; });
  Pass(2000);
  loop_.Post([&] { order += "task "; });
  EXPECT_TRUE(loop_.RunReady());
  EXPECT_EQ(order, "task timer ");
  EXPECT_FALSE(loop_.RunReady());
}

TEST_F(LoopTimeTest, ALateTimerIsAStallFromWhenItWasDue) {
  std::vector<double> stalls;
  loop_.OnStall([&](double seconds) { stalls.push_back(seconds); });
  loop_.After(std::chrono::seconds(1), [] {});
  loop_.After(std::chrono::seconds(2), [] {});
  Pass(21'000);
  loop_.RunReady();
  EXPECT_EQ(stalls, std::vector<double>{20}) << "once, however many timers are late";
  Pass(60'000);  // nothing was to be done
  loop_.RunReady();
  EXPECT_EQ(stalled_ms(), 20'000);
}

TEST_F(LoopTimeTest, ATaskOrATimerThatTakesLongIsAStall) {
  loop_.Post([&] { Pass(3000); });
  loop_.Post([&] {
    EXPECT_EQ(stalled_ms(), 3000);
    Pass(400);  // not long
  });
  loop_.RunReady();
  EXPECT_EQ(stalled_ms(), 3000);
  loop_.After(std::chrono::seconds(0), [&] { Pass(5000); });
  loop_.RunReady();
  EXPECT_EQ(stalled_ms(), 8000);
}

TEST_F(LoopTimeTest, ADeadlineWaitsOutEveryStallAndATimerDoesNot) {
  std::string fired;
  loop_.After(std::chrono::seconds(5), [&] { fired += "timer "; });
  const auto cancelled = loop_.Deadline(std::chrono::seconds(5), [&] { fired += "cancelled "; });
  loop_.Deadline(std::chrono::seconds(5), [&] { fired += "deadline "; });
  loop_.After(std::chrono::seconds(1), [] {});
  Pass(21'000);
  loop_.RunReady();
  EXPECT_EQ(fired, "timer ");
  loop_.CancelTimer(cancelled);
  Pass(3'999);
  loop_.RunReady();
  EXPECT_EQ(fired, "timer ");
  Pass(1);
  loop_.RunReady();
  EXPECT_EQ(fired, "timer deadline ");
}

TEST_F(LoopTimeTest, AttentiveTimeStandsStillInAStall) {
  const int64_t began = loop_.AttentiveNs();
  loop_.After(std::chrono::seconds(1), [] {});
  Pass(21'000);
  loop_.RunReady();
  EXPECT_EQ((loop_.AttentiveNs() - began) / 1'000'000, 1000);
}

}  // namespace
}  // namespace coxswain
