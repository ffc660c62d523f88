// Sums and maxima over the threads of a warp or block, in an order that is fixed by the launch
// shape alone.
#ifndef COXSWAIN_KERNELS_CUDA_REDUCE_CUH_
#define COXSWAIN_KERNELS_CUDA_REDUCE_CUH_

namespace coxswain::kernels::cuda {

inline constexpr int kWarp = 32;

// The same value in every lane.
template <typename T>
__device__ __forceinline__ T WarpSum(T x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

// The sum over the block in every thread. blockDim.x is a multiple of 32; `shared` holds 32
// elements, and may be used again after the call.
template <typename T>
__device__ __forceinline__ T BlockSum(T x, T* shared) {
  x = WarpSum(x);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  const int warps = blockDim.x / kWarp;
  T total = WarpSum(lane < warps ? shared[lane] : T{});
  __syncthreads();
  return total;
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_REDUCE_CUH_
