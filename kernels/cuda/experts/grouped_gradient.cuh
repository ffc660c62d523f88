// What the pass over the rows and the sums behind it share.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GRADIENT_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GRADIENT_CUH_

#include "kernels/cuda/experts/grouped_low_rank.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// The rows of all segments in `ranges` of equal length, the last one as far as they go. A piece is
// what a segment has in a range. The sums of a piece that is no whole segment are partials
// [2 ranges, columns, rank], stored as the gradient: two pieces of a range at most are of segments
// that go beyond it, one ahead and one behind.
struct GradientPass {
  GroupedGradient of;
  int ranges;

  __host__ __device__ __forceinline__ int64_t Elements() const {
    return int64_t{of.of.columns} * of.of.rank;
  }
  __device__ __forceinline__ int64_t RangeRows() const {
    const int64_t rows = __ldg(of.of.offsets + of.of.experts);
    return (rows + ranges - 1) / ranges;
  }
  __device__ __forceinline__ float* Partial(int range, bool first) const {
    return of.partials + (2 * range + (first ? 0 : 1)) * Elements();
  }
};

// Adds the partials to the gradient, in the order of ranges.
void SumGradientPartials(const GradientPass& pass, const char* op, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GRADIENT_CUH_
