// y or dx of lora_linear.h in one launch, for bfloat16 on compute capability 9.0: the low-rank
// product is more terms of the sum over k.
#ifndef COXSWAIN_KERNELS_CUDA_LORA_LORA_PRODUCT_H_
#define COXSWAIN_KERNELS_CUDA_LORA_LORA_PRODUCT_H_

#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels::cuda {

// Of y at most.
inline constexpr int kMaxProductMembers = 3;

// y: overwritten, members from multiples of 128 columns on.
bool LoraProductRuns(const LoraLinearForwardArgs& args);
// dx: overwritten, without dropout.
bool LoraProductRuns(const LoraLinearBackwardArgs& args);
// What both need of the linear: bfloat16, compute capability 9.0, K, N, ldy and r multiples of 8,
// weight_scale 1.
bool LoraProductTakes(const LoraLinearSpec& spec);

// Read h, and g in the workspace. No scratch.
void LoraProduct(const LoraLinearForwardArgs& args, Stream* stream);
void LoraProduct(const LoraLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LORA_LORA_PRODUCT_H_
