// The backward in one launch: its choice by activation, and SiLU's.
#include "kernels/cuda/fused_gated_backward.cuh"

#include "kernels/cuda/silu.cuh"

namespace coxswain::kernels::cuda {

void FusedGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  switch (args.spec.activation) {
    case GateActivation::kSilu:
      return fused_gated_backward::Launch<Silu>(args, stream);
    case GateActivation::kGeluTanh:
      return fused_gated_backward::Launch<TanhGelu>(args, stream);
    case GateActivation::kGelu:
      return fused_gated_backward::Launch<ErfGelu>(args, stream);
  }
}

}  // namespace coxswain::kernels::cuda
