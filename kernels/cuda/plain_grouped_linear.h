// The products of grouped_linear.h on CUDA cores: float32, and bfloat16 where grouped_product.h
// does not run.
#ifndef COXSWAIN_KERNELS_CUDA_PLAIN_GROUPED_LINEAR_H_
#define COXSWAIN_KERNELS_CUDA_PLAIN_GROUPED_LINEAR_H_

#include "kernels/grouped_linear.h"

namespace coxswain::kernels::cuda {

void PlainGroupedLinear(const GroupedLinearForwardArgs& args, Stream* stream);
void PlainGroupedLinear(const GroupedLinearInputGradientArgs& args, Stream* stream);
// The weight gradient alone.
void PlainGroupedLinear(const GroupedLinearWeightGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PLAIN_GROUPED_LINEAR_H_
