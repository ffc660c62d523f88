// What lora_gated_linear.h launches behind h or g, as products and an elementwise pass: what every
// library can do.
#ifndef COXSWAIN_KERNELS_LORA_PLAIN_LORA_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_LORA_PLAIN_LORA_GATED_LINEAR_H_

#include "kernels/lora/lora_gated_linear.h"

namespace coxswain::kernels {

// gate_up and the product; reads h.
void PlainLoraGate(const LoraGatedLinearForwardArgs& args, Stream* stream);
// dp in dx, then the gradient of gate_up; reads g.
void PlainLoraGateGradient(const LoraGatedLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_PLAIN_LORA_GATED_LINEAR_H_
