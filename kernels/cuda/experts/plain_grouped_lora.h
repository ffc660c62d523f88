// The passes of grouped_lora.h on CUDA cores (plain_grouped_linear.h): float32, and bfloat16 where
// grouped_low_rank.h does not run.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LORA_H_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LORA_H_

#include "kernels/experts/grouped_lora.h"

namespace coxswain::kernels::cuda {

void PlainGroupedLora(const GroupedLoraForwardArgs& args, Stream* stream);
// dh [R, r], of the spec's dtype: scratch.
void PlainGroupedLora(const GroupedLoraBackwardArgs& args, void* dh, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LORA_H_
