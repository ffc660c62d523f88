// The second half of a weight gradient: sums that blocks left in the workspace, added in a fixed
// order onto the gradient.
#ifndef COXSWAIN_KERNELS_CUDA_PARTIAL_SUMS_CUH_
#define COXSWAIN_KERNELS_CUDA_PARTIAL_SUMS_CUH_

#include <cstdint>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// Rows of partial sums that an op leaves at most: what its workspace is bounded by.
inline constexpr int64_t kMaxPartials = 1024;

// partials [count, gradients, columns]; gradient[g] [columns] of grad_dtype is accumulated, null:
// not wanted.
struct PartialSums {
  const float* partials = nullptr;
  int64_t count = 0;
  int64_t columns = 0;
  int gradients = 1;
  void* gradient[2] = {nullptr, nullptr};
};

// A block has 32 columns, a warp per 32nd of the rows; then a warp per column adds up the 32.
template <typename G>
__global__ void __launch_bounds__(kWarp* kWarp) PartialSumsKernel(PartialSums sums) {
  __shared__ float shared[kWarp][kWarp + 1];
  G* gradient = static_cast<G*>(blockIdx.y == 0 ? sums.gradient[0] : sums.gradient[1]);
  WaitForPrevious();
  if (gradient == nullptr) return;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t first = int64_t{blockIdx.x} * kWarp;
  const int64_t pitch = sums.gradients * sums.columns;
  const float* partials = sums.partials + blockIdx.y * sums.columns + first + lane;
  float sum = 0;
  if (first + lane < sums.columns) {
#pragma unroll 8
    for (int64_t row = warp; row < sums.count; row += kWarp) sum += partials[row * pitch];
  }
  shared[warp][lane] = sum;
  __syncthreads();
  const float total = WarpSum(shared[lane][warp]);
  const int64_t column = first + warp;
  if (lane == 0 && column < sums.columns) {
    gradient[column] = FromFloat<G>(ToFloat(gradient[column]) + total);
  }
}

inline void AddPartials(const PartialSums& sums, DType grad_dtype, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(sums.columns, kWarp)),
                  static_cast<unsigned>(sums.gradients));
  ForDType(grad_dtype, [&](auto zero) {
    LaunchEarly(PartialSumsKernel<decltype(zero)>, grid, kWarp * kWarp, 0, stream, "AddPartials",
                sums);
  });
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PARTIAL_SUMS_CUH_
