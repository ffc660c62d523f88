// y = silu(gate) up on packed gate and up, and its gradient in place.
//   silu(a) = a s, silu'(a) = s (1 + a (1 - s)), s = 1 / (1 + e^-a)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
//
// The kernels of glu.cuh: 3 sizeof(T) bytes per element of y forward, 5 sizeof(T) backward, where s
// is recomputed; bitwise deterministic. s comes of two special-function instructions; its error
// (glu.cuh) times a stays below 8 u max(1, |a|), as the part that grows with |a| is multiplied by
// 1 - s or, below zero, by s.
#include "kernels/swiglu.h"

#include "kernels/cuda/glu.cuh"

namespace coxswain::kernels {
namespace {

struct Silu {
  static __device__ __forceinline__ float Value(float a) { return a * cuda::Logistic(a); }
  static __device__ __forceinline__ float Slope(float a, float* value) {
    const float s = cuda::Logistic(a);
    *value = a * s;
    return s * (1.0f + a * (1.0f - s));
  }
};

}  // namespace

bool SwigluSupports(const SwigluSpec& spec) { return spec.intermediate > 0; }

void SwigluForward(const SwigluForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(SwigluSupports(args.spec), "SwigluForward");
  cuda::RequireExtent(args.rows, "SwigluForward", "rows");
  cuda::GluForward<Silu>(args.spec.dtype, args.rows, args.spec.intermediate, args.gate_up, args.y,
                         cuda::Handle(stream));
  cuda::CheckLaunch("SwigluForward");
}

void SwigluBackward(const SwigluBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(SwigluSupports(args.spec), "SwigluBackward");
  cuda::RequireExtent(args.rows, "SwigluBackward", "rows");
  cuda::GluBackward<Silu>(args.spec.dtype, args.rows, args.spec.intermediate, args.dy, args.gate_up,
                          args.y, cuda::Handle(stream));
  cuda::CheckLaunch("SwigluBackward");
}

}  // namespace coxswain::kernels
