// y = gelu(gate) up on packed gate and up, and its gradient.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
//
// The kernels of glu.cuh with the activations of gelu.cuh: 3 sizeof(T) bytes per element of y
// forward, 5 sizeof(T) backward; bitwise deterministic.
#include "kernels/activations/gates.h"

#include "kernels/cuda/activations/gelu.cuh"
#include "kernels/cuda/activations/glu.cuh"

namespace coxswain::kernels {

bool GegluSupports(const GegluSpec& spec) { return spec.intermediate > 0; }

void GegluForward(const GegluForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(GegluSupports(args.spec), "GegluForward");
  cuda::RequireExtent(args.rows, "GegluForward", "rows");
  args.spec.tanh ? cuda::GluForward<cuda::TanhGelu>(args, cuda::Handle(stream))
                 : cuda::GluForward<cuda::ErfGelu>(args, cuda::Handle(stream));
  cuda::CheckLaunch("GegluForward");
}

void GegluBackward(const GegluBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(GegluSupports(args.spec), "GegluBackward");
  cuda::RequireExtent(args.rows, "GegluBackward", "rows");
  args.spec.tanh ? cuda::GluBackward<cuda::TanhGelu>(args, cuda::Handle(stream))
                 : cuda::GluBackward<cuda::ErfGelu>(args, cuda::Handle(stream));
  cuda::CheckLaunch("GegluBackward");
}

}  // namespace coxswain::kernels
