// Products of adapters with one long side, each reading the wide matrix once. They take bfloat16
// operands that are 16-byte aligned, ranks and widths that are multiples of 8; each returns false,
// having launched nothing, for what it does not take: the caller then uses products of the library.
#ifndef COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_H_
#define COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_H_

#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels::cuda {

// h = scale x A^T. `x` is what A is multiplied with: args.x or its dropped copy.
bool LowRankProjection(const LoraLinearForwardArgs& args, const void* x, Stream* stream);

// g_j = scale dy_j B_j and dB_j += dy_j^T h_j of all members.
bool LowRankMemberGradients(const LoraLinearBackwardArgs& args, void* g, Stream* stream);

// dA += g^T x.
bool LowRankGradientOfA(const LoraLinearBackwardArgs& args, const void* g, const void* x,
                        Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_H_
