// Splits independent work over the threads of SetNumThreads. The work of an index must not depend
// on the split, which is what keeps results equal for every thread count.
#ifndef COXSWAIN_KERNELS_CPU_PARALLEL_H_
#define COXSWAIN_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

namespace coxswain::kernels::cpu {

// Elements below which a second thread costs more than it gives.
inline constexpr int64_t kParallelGrain = 32768;

// fn(begin, end) over [0, count), each index costing about `elements` element operations.
template <typename Fn>
void ParallelFor(int64_t count, int64_t elements, const Fn& fn) {
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, elements));
  at::parallel_for(0, count, grain, fn);
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_PARALLEL_H_
