// The backward in one launch with either form of GELU.
#include "kernels/cuda/products/fused_gated_backward.cuh"

namespace coxswain::kernels::cuda::fused_gated_backward {

template void Launch<TanhGelu>(const GatedLinearBackwardArgs&, const GatedBackwardAdapter*,
                               Stream*);
template void Launch<ErfGelu>(const GatedLinearBackwardArgs&, const GatedBackwardAdapter*, Stream*);

}  // namespace coxswain::kernels::cuda::fused_gated_backward
