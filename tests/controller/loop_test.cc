#include "controller/loop.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

namespace coxswain {
namespace {

// Invariant controller-1: what is posted or offloaded from inside a task runs after that task has
// returned, also where the simulator lets the loop do the work itself.
TEST(LoopTest, NoCallbackRunsInsideTheCallThatAskedForIt) {
  for (const int pool_threads : {0, 1}) {
    const SystemClock clock;
    Loop loop(&clock, pool_threads);
    std::string order;
    std::thread::id ran_on;
    loop.Post([&] {
      loop.Post([&] { order += "posted "; });
      loop.Offload([] {},
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
    EXPECT_EQ(order, "task posted done timer") << pool_threads;
    EXPECT_EQ(ran_on, std::this_thread::get_id()) << pool_threads;
  }
}

// Invariant controller-2: tasks and timers run while offloaded work is in progress.
TEST(LoopTest, GoesOnWhileOffloadedWorkWaits) {
  const SystemClock clock;
  Loop loop(&clock, 1);
  std::promise<void> release;
  bool released_by_loop = false;
  loop.Offload([&] { release.get_future().wait(); },
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

}  // namespace
}  // namespace coxswain
