// The forward in one launch with either form of GELU.
#include "kernels/cuda/products/fused_gated_forward.cuh"

namespace coxswain::kernels::cuda::fused_gated_forward {

template void Launch<TanhGelu>(const GatedLinearForwardArgs&, const GatedForwardAdapters*, Stream*);
template void Launch<ErfGelu>(const GatedLinearForwardArgs&, const GatedForwardAdapters*, Stream*);

}  // namespace coxswain::kernels::cuda::fused_gated_forward
