// Moves the corrections of routers against the use of their experts
// (kernels/experts/balance_bias.h).
//
// A block per router: the sum of its counts, which are integers, in double, then an expert per
// thread. Bytes: 16 E per router. Bitwise deterministic: every sum is exact.
#include "kernels/experts/balance_bias.h"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

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
