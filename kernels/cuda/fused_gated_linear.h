// The bodies of gated_linear.h in one launch, for bfloat16 on compute capability 9.0.
#ifndef COXSWAIN_KERNELS_CUDA_FUSED_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_CUDA_FUSED_GATED_LINEAR_H_

#include "kernels/gated_linear.h"

namespace coxswain::kernels::cuda {

// bfloat16, compute capability 9.0, H and I multiples of 8, addresses aligned to 16 bytes.
bool FusedGatedLinearRuns(const GatedLinearForwardArgs& args);
bool FusedGatedLinearRuns(const GatedLinearBackwardArgs& args);

// No workspace; of the arguments that gated_linear.h names, y of a backward that does not want it
// is left as it is.
void FusedGatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream);
void FusedGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_FUSED_GATED_LINEAR_H_
