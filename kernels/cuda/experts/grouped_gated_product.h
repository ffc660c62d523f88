// grouped_gated_linear.h in one launch, for bfloat16 on compute capability 9.0.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GATED_PRODUCT_H_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GATED_PRODUCT_H_

#include "kernels/experts/grouped_gated_linear.h"

namespace coxswain::kernels::cuda {

// Whether device, extents and addresses allow it.
bool GroupedGatedProductRuns(const GroupedGatedLinearForwardArgs& args);
void GroupedGatedProduct(const GroupedGatedLinearForwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_GATED_PRODUCT_H_
