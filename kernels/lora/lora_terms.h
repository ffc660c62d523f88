// The terms of lora_linear.h one by one, for ops that put something between them. Contracts and
// checks are those of the whole; none does anything for 0 rows.
#ifndef COXSWAIN_KERNELS_LORA_LORA_TERMS_H_
#define COXSWAIN_KERNELS_LORA_LORA_TERMS_H_

#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels {

// h.
void LoraProjection(const LoraLinearForwardArgs& args, Stream* stream);
// y; reads h.
void LoraOutput(const LoraLinearForwardArgs& args, Stream* stream);

// g, which stays in the workspace for the two below, and dB.
void LoraMemberGradients(const LoraLinearBackwardArgs& args, Stream* stream);
// dA; reads g.
void LoraGradientOfA(const LoraLinearBackwardArgs& args, Stream* stream);
// dx; reads g.
void LoraInputGradient(const LoraLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_LORA_TERMS_H_
