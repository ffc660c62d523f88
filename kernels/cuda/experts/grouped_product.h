// The products of grouped_linear.h in bfloat16 on compute capability 9.0: one launch for all
// experts.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_PRODUCT_H_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_PRODUCT_H_

#include "kernels/experts/grouped_linear.h"

namespace coxswain::kernels::cuda {

// Whether the device and the extents allow it; operands must be aligned to 16 bytes as well.
bool GroupedProductTakes(const GroupedLinearSpec& spec);

void GroupedProduct(const GroupedLinearForwardArgs& args, Stream* stream);
void GroupedProduct(const GroupedLinearInputGradientArgs& args, Stream* stream);
// The weight gradient alone.
void GroupedWeightProduct(const GroupedLinearWeightGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_PRODUCT_H_
