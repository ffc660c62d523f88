#include "kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/device.h"

namespace coxswain::kernels::cpu {
namespace {

using Parts = std::set<std::pair<int64_t, int64_t>>;

class ParallelTest : public testing::Test {
 protected:
  void SetUp() override { SetNumThreads(4); }
  void TearDown() override { SetNumThreads(before_); }

  static Parts Split(int64_t count, int64_t elements) {
    Parts parts;
    std::mutex mutex;
    ParallelFor(count, elements, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      parts.emplace(begin, end);
    });
    return parts;
  }

  const int before_ = NumThreads();
};

TEST_F(ParallelTest, SplitsIntoEqualPartsInOrder) {
  EXPECT_EQ(Split(10, kParallelGrain), (Parts{{0, 3}, {3, 6}, {6, 9}, {9, 10}}));
  EXPECT_EQ(Split(9, kParallelGrain), (Parts{{0, 3}, {3, 6}, {6, 9}}));
}

TEST_F(ParallelTest, NoPartIsBelowTheGrainButTheLast) {
  EXPECT_EQ(Split(5, kParallelGrain / 2), (Parts{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(Split(2, kParallelGrain / 2), (Parts{{0, 2}}));
  EXPECT_EQ(Split(0, kParallelGrain), Parts{});
}

TEST_F(ParallelTest, TheCountOfThreadsHoldsForEveryLaunchingThread) {
  Parts parts;
  int threads = 0;
  std::thread([&] {
    parts = Split(4, kParallelGrain);
    threads = NumThreads();
  }).join();
  EXPECT_EQ(parts, (Parts{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(threads, 4);
}

TEST_F(ParallelTest, InsideAPartNothingIsSplit) {
  std::atomic<int> calls = 0;
  ParallelFor(4, kParallelGrain, [&](int64_t, int64_t) {
    ParallelFor(100, kParallelGrain, [&](int64_t begin, int64_t end) {
      if (begin == 0 && end == 100) ++calls;
    });
  });
  EXPECT_EQ(calls, 4);
}

// Invariant kernels-3: with one thread no other computes.
TEST_F(ParallelTest, OneThreadRunsWhereItIsCalled) {
  SetNumThreads(1);
  std::set<std::thread::id> ids;
  ParallelFor(100, kParallelGrain,
              [&](int64_t, int64_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
}

}  // namespace
}  // namespace coxswain::kernels::cpu
