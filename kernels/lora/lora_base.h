// The products of lora_linear.h with W itself, by gemm.h.
#ifndef COXSWAIN_KERNELS_LORA_LORA_BASE_H_
#define COXSWAIN_KERNELS_LORA_LORA_BASE_H_

#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels {

// Without a W neither does anything; each throws std::invalid_argument where the contract of
// lora_linear.h asks for one then.

// y = weight_scale x W^T + bias, added to y where `accumulate`.
void LoraBaseOutput(const LoraLinearForwardArgs& args, bool accumulate, Stream* stream);
// dx = weight_scale dy W, added to dx where `accumulate`.
void LoraBaseInputGradient(const LoraLinearBackwardArgs& args, bool accumulate, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_LORA_BASE_H_
