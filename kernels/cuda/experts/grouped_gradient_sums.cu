// Second stage of grouped_gradient.cu: the partials of segments that lie in several ranges.
//
// A thread has four elements of an expert's gradient. Bytes: 4 per partial sum, which the pass left
// in the L2 cache as far as it holds them, and 8 per element of such a gradient. Order: of ranges;
// bitwise deterministic.
#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/grouped_gradient.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOwn = 4;

// Block (x, y): elements from kOwn kThreads x on, of experts y, y + gridDim.y, ...
template <typename Grad>
__global__ void __launch_bounds__(kThreads)
    GradientPartialsKernel(const __grid_constant__ GradientPass pass) {
  WaitForPrevious();
  const int64_t element = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kOwn;
  if (element >= pass.Elements()) return;
  const int64_t range_rows = pass.RangeRows();
  for (int e = static_cast<int>(blockIdx.y); e < pass.of.of.experts;
       e += static_cast<int>(gridDim.y)) {
    const int64_t begin = __ldg(pass.of.of.offsets + e), end = __ldg(pass.of.of.offsets + e + 1);
    if (begin == end) continue;
    const int first = static_cast<int>(begin / range_rows);
    const int last = static_cast<int>((end - 1) / range_rows);
    if (first == last) continue;
    Vector<float> sum;
    sum.Load(pass.Partial(first, begin == first * range_rows) + element);
#pragma unroll 8
    for (int range = first + 1; range <= last; ++range) {
      Vector<float> partial;
      partial.Load(pass.Partial(range, true) + element);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) sum.value[i] += partial.value[i];
    }
    Vector<Grad, kOwn> gradient;
    Grad* at = static_cast<Grad*>(pass.of.gradient) + e * pass.Elements() + element;
    gradient.Load(at);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      gradient.value[i] = fmaf(pass.of.scale, sum.value[i], gradient.value[i]);
    }
    gradient.Store(at);
  }
}

}  // namespace

void SumGradientPartials(const GradientPass& pass, const char* op, Stream* stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(pass.Elements(), kOwn * kThreads)),
                  static_cast<unsigned>(std::min(pass.of.of.experts, 65535)));
  ForDType(pass.of.grad_dtype, [&](auto zero) {
    LaunchEarly(GradientPartialsKernel<decltype(zero)>, grid, kThreads, 0, Handle(stream), op,
                pass);
  });
}

}  // namespace coxswain::kernels::cuda
