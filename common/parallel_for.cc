#include "common/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include "common/guarded.h"
#include "common/mutex.h"

namespace coxswain {

absl::Status ParallelFor(int64_t count, int threads,
                         const std::function<absl::Status(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  int64_t first = std::numeric_limits<int64_t>::max();
  absl::Status error;
  const auto run = [&] {
    while (!failed) {
      const int64_t i = next++;
      if (i >= count) return;
      const absl::Status status = Guarded([&] { return work(i); });
      if (status.ok()) continue;
      failed = true;
      MutexLock lock(mu);
      if (i > first) continue;
      first = i;
      error = status;
    }
  };
  std::vector<std::thread> others;
  try {
    for (int64_t t = 1; t < std::min<int64_t>(threads, count); ++t) others.emplace_back(run);
  } catch (const std::system_error&) {
    // The machine's limit of threads: those that started share the work.
  }
  run();
  for (std::thread& thread : others) thread.join();
  return error;
}

int FileThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

}  // namespace coxswain
