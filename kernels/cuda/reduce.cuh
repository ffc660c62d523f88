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

// The largest of the block and 0 in every thread; `shared` likewise.
__device__ __forceinline__ float BlockMax(float x, float* shared) {
  x = WarpMax(x);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  const int warps = blockDim.x / kWarp;
  const float largest = WarpMax(lane < warps ? shared[lane] : 0.0f);
  __syncthreads();
  return largest;
}

// The sums of the threads with this lane over the block's warps, in warp order, in the threads of
// warp 0. `shared` may not be used again without a barrier.
template <int kWarps, int N>
__device__ __forceinline__ void SumOverWarps(float (&sums)[N], float (&shared)[kWarps][kWarp * N]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int i = 0; i < N; ++i) shared[warp][i * kWarp + lane] = sums[i];
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += shared[w][i * kWarp + lane];
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_REDUCE_CUH_
