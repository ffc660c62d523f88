// Parts of linears with adapters, which both libraries share.
#ifndef COXSWAIN_KERNELS_LORA_LORA_BASE_H_
#define COXSWAIN_KERNELS_LORA_LORA_BASE_H_

#include "kernels/lora/lora_gated_linear.h"
#include "kernels/lora/lora_linear.h"

namespace coxswain::kernels {

// The products of lora_linear.h with W itself, by gemm.h.
// Without a W neither does anything; each throws std::invalid_argument where the contract of
// lora_linear.h asks for one then.

// y = weight_scale x W^T + bias, added to y where `accumulate`.
void LoraBaseOutput(const LoraLinearForwardArgs& args, bool accumulate, Stream* stream);
// dx = weight_scale dy W, added to dx where `accumulate`.
void LoraBaseInputGradient(const LoraLinearBackwardArgs& args, bool accumulate, Stream* stream);

// The terms of lora_linear.h one by one, for ops that put something between them. Contracts and
// checks are those of the whole; none does anything for 0 rows.

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

// What lora_gated_linear.h launches behind h or g, as products and an elementwise pass: what every
// library can do.

// gate_up and the product; reads h.
void PlainLoraGate(const LoraGatedLinearForwardArgs& args, Stream* stream);
// dp in dx, then the gradient of gate_up; reads g.
void PlainLoraGateGradient(const LoraGatedLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_LORA_BASE_H_
