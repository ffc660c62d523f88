// Parts are of the same size for the same count, grain and threads. A team is always of all
// threads, because a team that changes its size makes GOMP start threads anew; those without a part
// wait.
#include "kernels/cpu/parallel.h"

#include <omp.h>

#include <atomic>

namespace coxswain::kernels::cpu {
namespace {

std::atomic<int> threads_of_process{0};  // 0: not set, what OpenMP starts with

constexpr int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The team's size is kept for each launching thread.
void FollowProcess() {
  const int threads = threads_of_process.load(std::memory_order_relaxed);
  if (threads > 0 && omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace

void SetParallelThreads(int count) {
  threads_of_process = count;
  FollowProcess();
}

int ParallelThreads() {
  FollowProcess();
  return omp_get_max_threads();
}

void RunInParts(int64_t count, int64_t grain, ParallelPart part) {
  if (count <= 0) return;
  if (count <= grain || omp_in_parallel() != 0 || ParallelThreads() == 1) {
    part.part(part.context, 0, count);
    return;
  }
#pragma omp parallel
  {
    const int64_t parts = std::min<int64_t>(omp_get_num_threads(), CeilDivide(count, grain));
    const int64_t size = CeilDivide(count, parts);
    const int64_t begin = size * omp_get_thread_num();
    if (begin < count) part.part(part.context, begin, std::min(count, begin + size));
  }
}

}  // namespace coxswain::kernels::cpu
