// Rows whose target is their first maximum: no logit before the target's reaches it, none behind it
// exceeds it.
//
// One block per row, which reads it once: sizeof(T) bytes per element. An ignored row is not read.
// The answer is a disjunction over the row: bitwise deterministic.
#include "kernels/loss/cross_entropy.h"

#include <limits>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 512;

// V: vectors, behind the last whole one single elements; single elements alone where rows are not
// aligned.
template <typename V>
__global__ void __launch_bounds__(kThreads) TargetHitsKernel(const TargetHitsArgs args) {
  using T = typename V::Element;
  const int64_t row = blockIdx.x, vocab = args.spec.vocab;
  const int32_t target = args.targets[row];
  if (target < 0 || target >= vocab) {
    if (threadIdx.x == 0) args.hits[row] = 0.0f;
    return;
  }
  const T* z = static_cast<const T*>(args.logits) + row * args.ld;
  const float at_target = cuda::ToFloat(z[target]);
  bool beaten = false;
  const auto compare = [&](int64_t column, float x) {
    const bool below = x < at_target, at_most = x <= at_target;
    beaten |= column < target ? !below : !at_most;
  };
  const int64_t whole = vocab / V::kSize * V::kSize;
  for (int64_t v = int64_t{threadIdx.x} * V::kSize; v < whole; v += kThreads * V::kSize) {
    V x;
    x.Load(z + v);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) compare(v + i, x.value[i]);
  }
  if (const int64_t column = whole + threadIdx.x; column < vocab) {
    compare(column, cuda::ToFloat(z[column]));
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
  TargetHitsArgs strided = args;
  strided.ld = cuda::RowStride(args.ld, args.spec.vocab, "TargetHits");
  cuda::ForVectorOf(args.spec.dtype, strided.ld, {args.logits}, [&](auto vector) {
    TargetHitsKernel<decltype(vector)>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(strided);
  });
  cuda::CheckLaunch("TargetHits");
}

}  // namespace coxswain::kernels
