// The forward in one launch: its choice by activation, and SiLU's.
#include "kernels/cuda/products/fused_gated_forward.cuh"

#include "kernels/cuda/activations/silu.cuh"

namespace coxswain::kernels::cuda {

void FusedGatedLinearForward(const GatedLinearForwardArgs& args,
                             const GatedForwardAdapters* adapters, Stream* stream) {
  switch (args.spec.activation) {
    case GateActivation::kSilu:
      return fused_gated_forward::Launch<Silu>(args, adapters, stream);
    case GateActivation::kGeluTanh:
      return fused_gated_forward::Launch<TanhGelu>(args, adapters, stream);
    case GateActivation::kGelu:
      return fused_gated_forward::Launch<ErfGelu>(args, adapters, stream);
  }
}

}  // namespace coxswain::kernels::cuda
