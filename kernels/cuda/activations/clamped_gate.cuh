// The clamped gate of kernels/activations/gates.h at one element. Every kernel that has it
// calls this, so that their bits agree.
#ifndef COXSWAIN_KERNELS_CUDA_ACTIVATIONS_CLAMPED_GATE_CUH_
#define COXSWAIN_KERNELS_CUDA_ACTIVATIONS_CLAMPED_GATE_CUH_

#include "kernels/cuda/activations/glu.cuh"

namespace coxswain::kernels::cuda {

__device__ __forceinline__ float Upper(float x, float limit) { return x > limit ? limit : x; }
__device__ __forceinline__ float Within(float x, float limit) {
  return Upper(x < -limit ? -limit : x, limit);
}

// What y and its gradients are made of: u + 1, g s and its slope.
struct ClampedGateParts {
  float up, value, slope;

  __device__ __forceinline__ ClampedGateParts(float gate, float raw_up, float alpha, float limit) {
    const float g = Upper(gate, limit), s = Logistic(alpha * g);
    up = Within(raw_up, limit) + 1.0f;
    value = g * s;
    slope = s * fmaf(alpha * g, 1.0f - s, 1.0f);
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ACTIVATIONS_CLAMPED_GATE_CUH_
