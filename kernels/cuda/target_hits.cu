// Rows whose target is their first maximum: no logit before the target's reaches it, none behind it
// exceeds it.
//
// One block per row, which reads it once: sizeof(T) bytes per element. An ignored row is not read.
// The answer is a disjunction over the row: bitwise deterministic.
#include "kernels/target_hits.h"

#include <limits>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 512;

// V: vectors, or single elements where rows are not aligned.
template <typename V>
__global__ void __launch_bounds__(kThreads) TargetHitsKernel(const TargetHitsArgs args) {
  using T = typename V::Element;
  const int64_t row = blockIdx.x, vocab = args.spec.vocab;
  const int32_t target = args.targets[row];
  if (target < 0 || target >= vocab) {
    if (threadIdx.x == 0) args.hits[row] = 0.0f;
    return;
  }
  const T* z = static_cast<const T*>(args.logits) + row * vocab;
  const float at_target = cuda::ToFloat(z[target]);
  bool beaten = false;
  for (int64_t v = int64_t{threadIdx.x} * V::kSize; v < vocab; v += kThreads * V::kSize) {
    V x;
    x.Load(z + v);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      const bool below = x.value[i] < at_target, at_most = x.value[i] <= at_target;
      beaten |= v + i < target ? !below : !at_most;
    }
  }
  const int any = __syncthreads_or(beaten);
  if (threadIdx.x == 0) args.hits[row] = any == 0 ? 1.0f : 0.0f;
}

}  // namespace

bool TargetHitsSupports(const TargetHitsSpec& spec) {
  return spec.vocab > 0 && spec.vocab <= std::numeric_limits<int32_t>::max();
}

void TargetHits(const TargetHitsArgs& args, Stream* stream) {
  cuda::RequireSupported(TargetHitsSupports(args.spec), "TargetHits");
  cuda::RequireExtent(args.rows, "TargetHits", "rows");
  if (args.rows == 0) return;
  cuda::ForVectorOf(args.spec.dtype, args.spec.vocab, {args.logits}, [&](auto vector) {
    TargetHitsKernel<decltype(vector)>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("TargetHits");
}

}  // namespace coxswain::kernels
