// The backward in one launch: its choice by activation, and SiLU's.
#include "kernels/cuda/products/fused_gated_backward.cuh"

#include "kernels/cuda/activations/silu.cuh"

namespace coxswain::kernels::cuda {

void FusedGatedLinearBackward(const GatedLinearBackwardArgs& args,
                              const GatedBackwardAdapter* adapter, Stream* stream) {
  switch (args.spec.activation) {
    case GateActivation::kSilu:
      return fused_gated_backward::Launch<Silu>(args, adapter, stream);
    case GateActivation::kGeluTanh:
      return fused_gated_backward::Launch<TanhGelu>(args, adapter, stream);
    case GateActivation::kGelu:
      return fused_gated_backward::Launch<ErfGelu>(args, adapter, stream);
  }
}

}  // namespace coxswain::kernels::cuda
