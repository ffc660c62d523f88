// The router logits of one token, held by a warp: lane i % 32 has expert i.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_ROUTER_ROW_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_ROUTER_ROW_CUH_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/experts/route.h"

namespace coxswain::kernels::cuda {

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
// The expert that element i of a lane is of.
__device__ __forceinline__ int ExpertOf(int i) { return Lane() + i * kWarp; }

// Calls fn with an integral_constant: the elements of a lane in a row of `experts`.
template <typename Fn>
void ForExperts(int64_t experts, const Fn& fn) {
  static_assert(kMostExperts == 32 * kWarp);
  if (experts <= 2 * kWarp) {
    fn(std::integral_constant<int, 2>{});
  } else if (experts <= 4 * kWarp) {
    fn(std::integral_constant<int, 4>{});
  } else if (experts <= 8 * kWarp) {
    fn(std::integral_constant<int, 8>{});
  } else {
    fn(std::integral_constant<int, 32>{});
  }
}

// -inf past the last expert.
template <int N>
__device__ __forceinline__ void LoadRouterRow(const float* logits, int experts, float (&row)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) row[i] = ExpertOf(i) < experts ? logits[ExpertOf(i)] : -INFINITY;
}

// Whether a lane of the warp has a NaN.
template <int N>
__device__ __forceinline__ bool HasNan(const float (&row)[N]) {
  bool nan = false;
#pragma unroll
  for (int i = 0; i < N; ++i) nan = nan || row[i] != row[i];
  return __any_sync(~0u, nan);
}

// p_e = exp(l_e - maximum) / sum. A NaN among the logits makes the sum NaN.
struct RouterSoftmax {
  float maximum, sum;
};

// An exponential is off by 4 u; the sum has N + 5 roundings more.
template <int N>
__device__ __forceinline__ RouterSoftmax SoftmaxOf(const float (&row)[N]) {
  float maximum = row[0], sum = 0.0f;
#pragma unroll
  for (int i = 1; i < N; ++i) maximum = fmaxf(maximum, row[i]);
  maximum = WarpMax(maximum);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += expf(row[i] - maximum);
  return {.maximum = maximum, .sum = WarpSum(sum)};
}

// log of the sum of exp(l_e).
__device__ __forceinline__ double LogSum(const RouterSoftmax& row) {
  return static_cast<double>(row.maximum) + log(static_cast<double>(row.sum));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_ROUTER_ROW_CUH_
