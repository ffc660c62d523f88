// The sinks of query heads (kernels/attention/attention.h) on the device, and the launch of their
// gradient.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_SINKS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_SINKS_CUH_

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// [nq], of one of two types; neither: heads have none.
struct Sinks {
  const float* floats = nullptr;
  const bf16* halves = nullptr;

  __device__ __forceinline__ bool any() const { return floats != nullptr || halves != nullptr; }
  __device__ __forceinline__ float of(int head) const {
    return floats != nullptr ? floats[head] : ToFloat(halves[head]);
  }
};
inline Sinks MakeSinks(const AttentionSpec& spec, const void* sinks) {
  if (spec.sink_dtype == DType::kFloat32) return {.floats = static_cast<const float*>(sinks)};
  return {.halves = static_cast<const bf16*>(sinks)};
}

// What the backward knows of the rows of all heads: lse and D = rowsum(dO O). Row t of head h is
// number ((h / group) tokens + t) group + h % group, which is h tokens + t for groups of 1.
struct SinkRows {
  int64_t tokens = 0;
  int heads = 0, group = 1;
  const float* lse = nullptr;
  const float* delta = nullptr;
  const float2* pairs = nullptr;  // instead of both: lse log2(e), and D
};
// Adds -sum over the rows of exp(sink - lse) D to gradient[h]; nothing where gradient is null.
void LaunchSinkGradient(const SinkRows& rows, const Sinks& sinks, float* gradient, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_SINKS_CUH_
