// Splits independent work over the threads of SetNumThreads. The work of an index must not depend
// on the split, which is what keeps results equal for every thread count.
#ifndef COXSWAIN_KERNELS_CPU_PARALLEL_H_
#define COXSWAIN_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

namespace coxswain::kernels::cpu {

// Elements below which a second thread costs more than it gives.
inline constexpr int64_t kParallelGrain = 32768;

// Process-wide, whichever thread launches: OpenMP's own setting is of the thread that makes it.
void SetParallelThreads(int count);
int ParallelThreads();

// What one thread does of a loop: `part`(context, begin, end). It must not throw.
struct ParallelPart {
  void (*part)(const void* context, int64_t begin, int64_t end) = nullptr;
  const void* context = nullptr;
};
// [0, count) in equal parts, in order, one a thread, none but the last below `grain` indices.
// Called from inside a part it runs where it is.
void RunInParts(int64_t count, int64_t grain, ParallelPart part);

// fn(begin, end) over [0, count), each index costing about `elements` element operations.
template <typename Fn>
void ParallelFor(int64_t count, int64_t elements, const Fn& fn) {
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, elements));
  RunInParts(count, grain,
             {.part = [](const void* context, int64_t begin,
                         int64_t end) { (*static_cast<const Fn*>(context))(begin, end); },
              .context = &fn});
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_PARALLEL_H_
