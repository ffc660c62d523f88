// *sum (+)= sum of values, in double.
//
// One block: thread i adds values i, i + 1024, ..., then the threads' sums are added as in
// reduce.cuh. The counts are those of rows or blocks, a few thousand, so latency is all it costs.
// 4 bytes per value; bitwise deterministic.
#include "kernels/tensors/whole_tensors.h"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    SumKernel(int64_t count, const float* values, double* sum, bool accumulate) {
  __shared__ double shared[cuda::kWarp];
  double own = 0.0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += static_cast<double>(values[i]);
  const double total = cuda::BlockSum(own, shared);
  if (threadIdx.x == 0) *sum = accumulate ? *sum + total : total;
}

}  // namespace

void Sum(const SumArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Sum", "count");
  SumKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args.count, args.values, args.sum,
                                                      args.accumulate);
  cuda::CheckLaunch("Sum");
}

}  // namespace coxswain::kernels
