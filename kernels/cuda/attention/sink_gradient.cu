// The gradient of the sinks of query heads, from what the backward of attention made for its rows:
//   ds_h = -sum over rows of exp(s_h - lse) D
// Source: kernels/attention/attention.h, derivation.
//
// One block a head: a thread takes every 1024th row, then the block adds up. 8 bytes a row and
// head, a few percent of what the backward reads. Deterministic: the order of a sum follows from
// the number of tokens. A sum is off by tokens / 1024 + 10 roundings and those of its terms: 4 u of
// the exponential, u |s log2 e| and u |lse log2 e| of its exponent.
#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/attention/sinks.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    SinkGradientKernel(const SinkRows rows, const Sinks sinks, float* gradient) {
  __shared__ float shared[kWarp];
  const int head = static_cast<int>(blockIdx.x);
  const int64_t first = head / rows.group * rows.tokens * rows.group + head % rows.group;
  const float sink = sinks.of(head) * kLog2E;
  float sum = 0.0f;
  for (int64_t t = threadIdx.x; t < rows.tokens; t += kThreads) {
    const int64_t at = first + t * rows.group;
    const float2 row =
        rows.pairs != nullptr ? rows.pairs[at] : float2{rows.lse[at] * kLog2E, rows.delta[at]};
    sum += Exp2(sink - row.x) * row.y;
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x == 0) gradient[head] -= sum;
}

}  // namespace

void LaunchSinkGradient(const SinkRows& rows, const Sinks& sinks, float* gradient, Stream* stream) {
  if (gradient == nullptr) return;
  SinkGradientKernel<<<static_cast<unsigned>(rows.heads), kThreads, 0, Handle(stream)>>>(
      rows, sinks, gradient);
  CheckLaunch("AttentionBackward");
}

}  // namespace coxswain::kernels::cuda
