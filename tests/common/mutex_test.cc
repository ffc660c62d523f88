#include "common/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "absl/base/thread_annotations.h"

namespace coxswain {
namespace {

// A number that threads count up and wait for.
class Counter {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  void AwaitAtLeast(int count) {
    MutexLock lock(mu_);
    changed_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return count_ >= count; });
  }
  bool AwaitAtLeast(int count, std::chrono::milliseconds timeout) {
    MutexLock lock(mu_);
    return changed_.WaitFor(lock, timeout,
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return count_ >= count; });
  }
  void AwaitSomething(std::chrono::milliseconds timeout) {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, timeout);
    ++woken_;
  }
  int count() {
    MutexLock lock(mu_);
    return count_;
  }
  int woken() {
    MutexLock lock(mu_);
    return woken_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  int woken_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST(MutexTest, LosesNoChangeOfManyThreads) {
  constexpr int kThreads = 4, kTimes = 1000;
  Counter counter;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&counter] {
        for (int time = 0; time < kTimes; ++time) counter.Add();
      });
    }
  }
  EXPECT_EQ(counter.count(), kThreads * kTimes);
}

TEST(MutexTest, IsFreeBetweenUnlockAndLock) {
  Mutex mu;
  MutexLock lock(mu);
  lock.Unlock();
  std::thread([&mu] { MutexLock other(mu); }).join();
  lock.Lock();
}

TEST(CondVarTest, WaitsUntilThePredicateHolds) {
  Counter counter;
  const std::jthread adder([&counter] {
    for (int i = 0; i < 3; ++i) counter.Add();
  });
  counter.AwaitAtLeast(3);
  EXPECT_EQ(counter.count(), 3);
}

TEST(CondVarTest, TellsWhetherThePredicateHeldInTime) {
  Counter counter;
  EXPECT_FALSE(counter.AwaitAtLeast(1, std::chrono::milliseconds(1)));
  counter.Add();
  EXPECT_TRUE(counter.AwaitAtLeast(1, std::chrono::milliseconds(0)));
}

TEST(CondVarTest, EndsAWaitWithoutPredicateAtItsTimeout) {
  Counter counter;
  counter.AwaitSomething(std::chrono::milliseconds(1));
  EXPECT_EQ(counter.woken(), 1);
}

}  // namespace
}  // namespace coxswain
