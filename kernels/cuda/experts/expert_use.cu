// How a router used its experts (kernels/experts/expert_use.h).
//
// A warp walks over tokens, a row of E <= 1024 in its registers, and keeps rows and entropies in
// double. The warps of a block add theirs in turn into the workspace [blocks, 2]; a second kernel,
// which starts early, adds those in a fixed order and the counts, which expert_rows.h has made
// already, beside them. Blocks depend on the tokens alone: bitwise deterministic.
//
// Bytes: 4 E + 4 per token. A probability is off by (N + 14) u, u = 2^-24, N the elements of a
// lane.
#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/router_row.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/experts/expert_use.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int64_t kTokensPerWarp = 4, kMostBlocks = 256;

int64_t BlocksOf(int64_t tokens) {
  return std::clamp<int64_t>(cuda::CeilDiv(tokens, kTokensPerWarp * kWarps), 1, kMostBlocks);
}

// log sum - sum p (l - maximum): p is 0 where l is -inf.
template <int N>
__device__ __forceinline__ double SoftmaxEntropy(const float (&row)[N]) {
  const cuda::RouterSoftmax softmax = cuda::SoftmaxOf(row);
  double mean = 0.0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float below = row[i] - softmax.maximum;
    const float p = expf(below) / softmax.sum;
    if (p > 0.0f) mean += static_cast<double>(p) * below;
  }
  return log(static_cast<double>(softmax.sum)) - cuda::WarpSum(mean);
}

// log S - sum s log s / S, S the sum of s: s is 0 where l is -inf.
template <int N>
__device__ __forceinline__ double SigmoidEntropy(const float (&row)[N]) {
  double sum = 0.0, logs = 0.0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float s = 1.0f / (1.0f + expf(-row[i]));
    sum += s;
    if (s > 0.0f) logs += static_cast<double>(s) * logf(s);
  }
  sum = cuda::WarpSum(sum);
  return log(sum) - cuda::WarpSum(logs) / sum;
}

// +inf has a score of 1 by a sigmoid.
template <int N>
__device__ __forceinline__ bool IsBounded(const float (&row)[N]) {
  bool bounded = true;
#pragma unroll
  for (int i = 0; i < N; ++i) bounded = bounded && row[i] < INFINITY;
  return __all_sync(~0u, bounded);
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    ExpertUseRowsKernel(const ExpertUseArgs args, double* ends) {
  __shared__ double of_warps[kWarps][2];
  cuda::LetNextStart();
  const int experts = static_cast<int>(args.spec.experts);
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  double rows = 0.0, entropies = 0.0;
  for (int64_t t = int64_t{blockIdx.x} * kWarps + warp; t < args.tokens;
       t += int64_t{gridDim.x} * kWarps) {
    if (args.ids[t * args.spec.chosen] < 0) continue;
    float row[N];
    cuda::LoadRouterRow(args.logits + t * experts, experts, row);
    if (!IsBounded(row)) continue;
    const double entropy =
        args.spec.score == RouterScore::kSigmoid ? SigmoidEntropy(row) : SoftmaxEntropy(row);
    if (!isfinite(entropy)) continue;
    rows += 1.0;
    entropies += entropy;
  }
  if (cuda::Lane() == 0) {
    of_warps[warp][0] = rows;
    of_warps[warp][1] = entropies;
  }
  __syncthreads();
  if (threadIdx.x >= 2) return;
  double sum = 0.0;
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w][threadIdx.x];
  ends[2 * blockIdx.x + threadIdx.x] = sum;
}

// One block. Warp w of the first two adds column w of ends [blocks, 2].
__global__ void __launch_bounds__(kThreads)
    ExpertUseSumsKernel(const double* ends, int blocks, int experts, const int32_t* counts,
                        double* sums) {
  cuda::WaitForPrevious();
  for (int e = threadIdx.x; e < experts; e += kThreads) sums[e] += counts[e];
  const int column = static_cast<int>(threadIdx.x) / cuda::kWarp;
  if (column >= 2) return;
  double sum = 0.0;
#pragma unroll 4
  for (int b = cuda::Lane(); b < blocks; b += cuda::kWarp) sum += ends[2 * b + column];
  sum = cuda::WarpSum(sum);
  if (cuda::Lane() == 0) sums[experts + column] += sum;
}

}  // namespace

bool ExpertUseSupports(const ExpertUseSpec& spec) {
  return spec.experts > 0 && spec.experts <= kMostExperts && spec.chosen > 0 &&
         spec.chosen <= spec.experts;
}

int64_t ExpertUseWorkspaceBytes(const ExpertUseSpec& /*spec*/, int64_t tokens) {
  return BlocksOf(tokens) * 2 * static_cast<int64_t>(sizeof(double));
}

void ExpertUse(const ExpertUseArgs& args, Stream* stream) {
  cuda::RequireSupported(ExpertUseSupports(args.spec), "ExpertUse");
  cuda::RequireExtent(args.tokens, "ExpertUse", "tokens");
  cuda::RequireWorkspace(args.workspace, ExpertUseWorkspaceBytes(args.spec, args.tokens),
                         "ExpertUse");
  const auto blocks = static_cast<int>(BlocksOf(args.tokens));
  double* ends = static_cast<double*>(args.workspace.data);
  const cudaStream_t handle = cuda::Handle(stream);
  cuda::ForExperts(args.spec.experts, [&](auto count) {
    ExpertUseRowsKernel<decltype(count)::value><<<blocks, kThreads, 0, handle>>>(args, ends);
  });
  cuda::CheckLaunch("ExpertUse");
  cuda::LaunchEarly(ExpertUseSumsKernel, dim3(1), kThreads, 0, handle, "ExpertUse",
                    static_cast<const double*>(ends), blocks, static_cast<int>(args.spec.experts),
                    args.counts, args.sums);
}

// Moves the corrections of routers against the use of their experts
// (kernels/experts/expert_use.h).
//
// A block per router: the sum of its counts, which are integers, in double, then an expert per
// thread. Bytes: 16 E per router. Bitwise deterministic: every sum is exact.

namespace {

__global__ void __launch_bounds__(kThreads) BalanceBiasKernel(const BalanceBiasArgs args) {
  __shared__ double shared[cuda::kWarp];
  const float rate = *args.rate;
  if (*args.skip != 0 || rate == 0.0f) return;
  const double* counts = args.counts + blockIdx.x * args.stride;
  float* bias = args.bias + blockIdx.x * args.experts;
  double own = 0.0;
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) own += counts[e];
  const double all = cuda::BlockSum(own, shared);
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) {
    const double used = counts[e] * static_cast<double>(args.experts);
    if (used < all) bias[e] += rate;
    if (used > all) bias[e] -= rate;
  }
}

}  // namespace

void BalanceBias(const BalanceBiasArgs& args, Stream* stream) {
  if (args.routers == 0) return;
  BalanceBiasKernel<<<static_cast<unsigned>(args.routers), kThreads, 0, cuda::Handle(stream)>>>(
      args);
  cuda::CheckLaunch("BalanceBias");
}

}  // namespace coxswain::kernels
