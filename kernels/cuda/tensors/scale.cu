// x *= factor, in place.
//
// Elementwise over 16-byte vectors, which each block walks until the end: few enough blocks that a
// factor of 1, which every thread reads and returns upon, costs no more than the launch. One
// rounding, bitwise deterministic.
#include "kernels/tensors/scale.h"

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;

template <typename V>
__global__ void __launch_bounds__(kThreads)
    ScaleKernel(int64_t vectors, const float* factor_of, typename V::Element* x) {
  const float factor = *factor_of;
  if (factor == 1.0f) return;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t v = int64_t{blockIdx.x} * kThreads + threadIdx.x; v < vectors; v += step) {
    V a;
    a.Load(x + v * V::kSize);
#pragma unroll
    for (float& value : a.value) value *= factor;
    a.Store(x + v * V::kSize);
  }
}

}  // namespace

void Scale(const ScaleArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Scale", "count");
  if (args.count == 0) return;
  cuda::ForVectorOf(args.dtype, args.count, {args.x}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t vectors = args.count / V::kSize;
    const int64_t blocks = std::min<int64_t>(cuda::CeilDiv(vectors, kThreads),
                                             kBlocksPerMultiprocessor * cuda::Multiprocessors());
    ScaleKernel<V><<<static_cast<unsigned>(blocks), kThreads, 0, cuda::Handle(stream)>>>(
        vectors, args.factor, static_cast<T*>(args.x));
  });
  cuda::CheckLaunch("Scale");
}

}  // namespace coxswain::kernels
