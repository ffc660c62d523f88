#include "common/parallel_for.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace coxswain {
namespace {

TEST(ParallelForTest, CallsEachIndexOnceOnAsManyThreadsAsAllowed) {
  std::mutex mu;
  std::condition_variable changed;
  std::set<std::thread::id> threads;
  std::multiset<int64_t> seen;
  const absl::Status status = ParallelFor(7, 3, [&](int64_t i) {
    std::unique_lock lock(mu);
    seen.insert(i);
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
    // Nobody goes on before all three have come.
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return threads.size() == 3; });
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(seen, (std::multiset<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(ParallelForTest, AnErrorEndsItAndTheLowestIsTold) {
  std::atomic<int> calls{0};
  const absl::Status status = ParallelFor(1000, 1, [&](int64_t i) {
    ++calls;
    return i < 5 ? absl::OkStatus() : absl::DataLossError(std::to_string(i));
  });
  EXPECT_EQ(status.message(), "5");
  EXPECT_EQ(calls, 6);
  std::mutex mu;
  std::condition_variable changed;
  int arrived = 0;
  const absl::Status both = ParallelFor(2, 2, [&](int64_t i) {
    std::unique_lock lock(mu);
    ++arrived;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return arrived == 2; });
    return absl::DataLossError(std::to_string(i));
  });
  EXPECT_EQ(both.message(), "0");
}

TEST(ParallelForTest, NothingToDoIsDone) {
  EXPECT_TRUE(ParallelFor(0, 8, [](int64_t) { return absl::InternalError("called"); }).ok());
  EXPECT_GE(FileThreads(), 1);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they need address space of their own
// How often work is called where no stack for another thread is to be had; ends the process.
void CountCallsWithoutThreads() {
  const rlimit none = {1, 1};
  setrlimit(RLIMIT_AS, &none);
  int called = 0;
  const absl::Status status = ParallelFor(7, 3, [&](int64_t) {
    ++called;
    return absl::OkStatus();
  });
  _exit(status.ok() ? called : 99);
}

TEST(ParallelForTest, GoesOnWithTheThreadsThatTheMachineGives) {
  EXPECT_EXIT(CountCallsWithoutThreads(), testing::ExitedWithCode(7), "");
}
#endif

}  // namespace
}  // namespace coxswain
