// The balance and z losses of a pool of router rows (kernels/experts/router_loss.h).
//
// Sums: a warp walks over tokens and keeps each lane's experts' sums of p in double, in registers;
// choices are counted by integer additions in shared memory, whose order does not show. The warps
// of a block add theirs in turn; the blocks' sums [2 E + 2] meet in the workspace and a second
// kernel, which starts early, adds them in block order. Blocks depend on the tokens alone: bitwise
// deterministic. Gradient: a warp per token, in double, as f_e and its mean cancel.
//
// Bytes: 4 E + 4 k per token to sum, 12 E per token for the gradient. A probability is off by
// (N + 14) u, u = 2^-24, N the elements of a lane.
#include "kernels/experts/router_loss.h"

#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/router_row.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int64_t kTokensPerWarp = 4, kMostBlocks = 128;

int64_t BlocksOf(int64_t tokens) {
  return std::clamp<int64_t>(cuda::CeilDiv(tokens, kTokensPerWarp * kWarps), 1, kMostBlocks);
}

// The token of this warp, and how far the grid's warps reach.
__device__ __forceinline__ int64_t FirstToken() {
  return int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
}
__device__ __forceinline__ int64_t TokenStep() { return int64_t{gridDim.x} * kWarps; }

// What a warp adds up of its tokens: p by expert, rows and squares of the log-sum.
template <int N>
struct WarpPool {
  double p[N] = {};
  double rows = 0.0, squares = 0.0;

  __device__ __forceinline__ void Add(const float (&row)[N]) {
    const cuda::RouterSoftmax softmax = cuda::SoftmaxOf(row);
#pragma unroll
    for (int i = 0; i < N; ++i) p[i] += expf(row[i] - softmax.maximum) / softmax.sum;
    const double lse = cuda::LogSum(softmax);
    rows += 1.0;
    squares += lse * lse;
  }
};

// The warps' sums into pool [2 E + 2] of the block, one after the other.
template <int N>
__device__ __forceinline__ void StorePool(const WarpPool<N>& own, int experts,
                                          const int32_t* choices, double* pool) {
  __shared__ double p[N * cuda::kWarp], ends[2];
  for (int w = 0; w < kWarps; ++w) {
    if (w == static_cast<int>(threadIdx.x) / cuda::kWarp) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const int e = cuda::ExpertOf(i);
        p[e] = w == 0 ? own.p[i] : p[e] + own.p[i];
      }
      if (cuda::Lane() == 0) {
        ends[0] = w == 0 ? own.rows : ends[0] + own.rows;
        ends[1] = w == 0 ? own.squares : ends[1] + own.squares;
      }
    }
    __syncthreads();
  }
  for (int e = threadIdx.x; e < experts; e += kThreads) {
    pool[e] = p[e];
    pool[experts + e] = choices[e];
  }
  if (threadIdx.x < 2) pool[2 * experts + threadIdx.x] = ends[threadIdx.x];
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    RouterLossRowsKernel(const RouterLossSumsArgs args, double* pools) {
  __shared__ int32_t choices[N * cuda::kWarp];
  cuda::LetNextStart();
  const int experts = static_cast<int>(args.spec.experts);
  for (int e = threadIdx.x; e < experts; e += kThreads) choices[e] = 0;
  __syncthreads();
  WarpPool<N> pool;
  for (int64_t t = FirstToken(); t < args.tokens; t += TokenStep()) {
    const int32_t* ids = args.ids + t * args.spec.chosen;
    if (ids[0] < 0) continue;
    float row[N];
    cuda::LoadRouterRow(args.logits + t * experts, experts, row);
    pool.Add(row);
    for (int s = cuda::Lane(); s < args.spec.chosen; s += cuda::kWarp) {
      atomicAdd(&choices[ids[s]], 1);
    }
  }
  StorePool(pool, experts, choices, pools + blockIdx.x * RouterLossSumCount(args.spec));
}

// A block has 32 of the columns of pools [blocks, columns]; warp w adds rows w, w + 8, ...
__global__ void __launch_bounds__(kThreads)
    RouterLossPoolsKernel(const double* pools, int blocks, int columns, bool accumulate,
                          double* sums) {
  __shared__ double of_warps[kWarps][cuda::kWarp];
  cuda::WaitForPrevious();
  const int warp = threadIdx.x / cuda::kWarp, column = blockIdx.x * cuda::kWarp + cuda::Lane();
  double sum = 0.0;
  if (column < columns) {
#pragma unroll 8
    for (int row = warp; row < blocks; row += kWarps) sum += pools[row * columns + column];
  }
  of_warps[warp][cuda::Lane()] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int w = 1; w < kWarps; ++w) sum += of_warps[w][cuda::Lane()];
  sums[column] = accumulate ? sums[column] + sum : sum;
}

__global__ void __launch_bounds__(kThreads) RouterLossKernel(const RouterLossArgs args) {
  __shared__ double shared[cuda::kWarp];
  const int64_t experts = args.spec.experts;
  const double rows = args.sums[2 * experts];
  double sum = 0.0;
  for (int64_t e = threadIdx.x; e < experts && rows != 0.0; e += kThreads) {
    sum += args.sums[e] / rows * (args.sums[experts + e] / rows);
  }
  sum = cuda::BlockSum(sum, shared);
  if (threadIdx.x != 0) return;
  args.losses[0] = static_cast<double>(experts) * sum;
  args.losses[1] = rows == 0.0 ? 0.0 : args.sums[2 * experts + 1] / rows;
  if (args.total == nullptr) return;
  *args.total += args.factors[0] * args.losses[0] + args.factors[1] * args.losses[1];
  for (int i = 0; args.parts != nullptr && i < 2; ++i) {
    args.parts[i] += args.factors[i] * args.losses[i];
  }
}

// With c_e = N f_e: dl_e += p_e (a E / N^2 (c_e - sum_i c_i p_i) + 2 b lse / N).
template <int N>
__global__ void __launch_bounds__(kThreads)
    RouterLossGradientKernel(const RouterLossGradientArgs args) {
  const int experts = static_cast<int>(args.spec.experts);
  const int64_t t = FirstToken();
  if (t >= args.tokens || args.ids[t * args.spec.chosen] < 0) return;
  const double* choices = args.sums + experts;
  float row[N];
  cuda::LoadRouterRow(args.logits + t * experts, experts, row);
  const cuda::RouterSoftmax softmax = cuda::SoftmaxOf(row);
  double mean = 0.0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    row[i] = expf(row[i] - softmax.maximum) / softmax.sum;
    if (cuda::ExpertOf(i) < experts) mean += choices[cuda::ExpertOf(i)] * row[i];
  }
  mean = cuda::WarpSum(mean);
  const double rows = args.sums[2 * experts];
  const double scale = args.scale == nullptr ? 1.0 : static_cast<double>(*args.scale);
  const double a = scale * args.factors[0] * static_cast<double>(experts) / (rows * rows);
  const double b = scale * 2.0 * args.factors[1] * cuda::LogSum(softmax) / rows;
  float* dlogits = args.dlogits + t * experts;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int e = cuda::ExpertOf(i);
    if (e < experts) dlogits[e] += static_cast<float>(row[i] * (a * (choices[e] - mean) + b));
  }
}

void Require(const RouterLossSpec& spec) {
  cuda::RequireSupported(RouterLossSupports(spec), "RouterLoss");
}

}  // namespace

bool RouterLossSupports(const RouterLossSpec& spec) {
  return spec.experts > 0 && spec.experts <= kMostExperts && spec.chosen > 0 &&
         spec.chosen <= spec.experts;
}

int64_t RouterLossSumsWorkspaceBytes(const RouterLossSpec& spec, int64_t tokens) {
  return BlocksOf(tokens) * RouterLossSumCount(spec) * static_cast<int64_t>(sizeof(double));
}

void RouterLossSums(const RouterLossSumsArgs& args, Stream* stream) {
  Require(args.spec);
  cuda::RequireExtent(args.tokens, "RouterLoss", "tokens");
  cuda::RequireWorkspace(args.workspace, RouterLossSumsWorkspaceBytes(args.spec, args.tokens),
                         "RouterLoss");
  const auto blocks = static_cast<int>(BlocksOf(args.tokens));
  const auto columns = static_cast<int>(RouterLossSumCount(args.spec));
  double* pools = static_cast<double*>(args.workspace.data);
  const cudaStream_t handle = cuda::Handle(stream);
  cuda::ForExperts(args.spec.experts, [&](auto count) {
    RouterLossRowsKernel<decltype(count)::value><<<blocks, kThreads, 0, handle>>>(args, pools);
  });
  cuda::CheckLaunch("RouterLossSums");
  cuda::LaunchEarly(RouterLossPoolsKernel,
                    dim3(static_cast<unsigned>(cuda::CeilDiv(columns, cuda::kWarp))), kThreads, 0,
                    handle, "RouterLossSums", static_cast<const double*>(pools), blocks, columns,
                    args.accumulate, args.sums);
}

void RouterLoss(const RouterLossArgs& args, Stream* stream) {
  Require(args.spec);
  RouterLossKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("RouterLoss");
}

void RouterLossGradient(const RouterLossGradientArgs& args, Stream* stream) {
  Require(args.spec);
  cuda::RequireExtent(args.tokens, "RouterLoss", "tokens");
  if (args.tokens == 0) return;
  const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.tokens, kWarps));
  cuda::ForExperts(args.spec.experts, [&](auto count) {
    RouterLossGradientKernel<decltype(count)::value>
        <<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("RouterLossGradient");
}

}  // namespace coxswain::kernels
