// y = silu(gate) up on packed gate and up, and its gradient.
//   silu(a) = a s, silu'(a) = s (1 + a (1 - s)), s = 1 / (1 + e^-a)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
//
// The kernels of glu.cuh with the activation of silu.cuh: 3 sizeof(T) bytes per element of y
// forward, 5 sizeof(T) backward, where s is recomputed; bitwise deterministic.
#include "kernels/activations/gates.h"

#include "kernels/cuda/activations/glu.cuh"
#include "kernels/cuda/activations/silu.cuh"

namespace coxswain::kernels {

bool SwigluSupports(const SwigluSpec& spec) { return spec.intermediate > 0; }

void SwigluForward(const SwigluForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(SwigluSupports(args.spec), "SwigluForward");
  cuda::RequireExtent(args.rows, "SwigluForward", "rows");
  cuda::GluForward<cuda::Silu>(args, cuda::Handle(stream));
  cuda::CheckLaunch("SwigluForward");
}

void SwigluBackward(const SwigluBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(SwigluSupports(args.spec), "SwigluBackward");
  cuda::RequireExtent(args.rows, "SwigluBackward", "rows");
  cuda::GluBackward<cuda::Silu>(args, cuda::Handle(stream));
  cuda::CheckLaunch("SwigluBackward");
}

}  // namespace coxswain::kernels
