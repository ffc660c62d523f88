// The two products of gated_linear.h where the linears have adapters (lora_linear.h).
//   Forward, of gate and up:  gate_up = x W^T + h B^T by members, product = act(gate) up
//   Backward, of down:        dp = dy V + g A, then dgate = dp up act'(gate), dup = dp act(gate)
// gate_up and dp are rounded to the type before the activation reads them.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; Hu et al., "LoRA", 2021.
#ifndef COXSWAIN_KERNELS_LORA_LORA_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_LORA_LORA_GATED_LINEAR_H_

#include "kernels/lora/lora_linear.h"
#include "kernels/products/gated_linear.h"

namespace coxswain::kernels {

// CUDA: one launch behind h or g, or a product and an elementwise pass, by the table of gemm.h as
// in gated_linear.h. Supported where both linears and the gated unit are; workspaces are those of
// lora_linear.h.
struct LoraGatedLinearForwardArgs {
  // Of gate and up, N = 2 I: y is gate_up [T, 2 I], overwritten.
  LoraLinearForwardArgs linear = {};
  GateActivation activation = GateActivation::kSilu;
  void* product = nullptr;  // [T, I], overwritten; null: not wanted
};
void LoraGatedLinearForward(const LoraGatedLinearForwardArgs& args, Stream* stream);

struct LoraGatedLinearBackwardArgs {
  // Of down, K = I. x is the product; null: it was not kept and comes back in dx, which else is
  // left with any value. dx [T, I] must be there.
  LoraLinearBackwardArgs linear = {};
  GateActivation activation = GateActivation::kSilu;
  void* gate_up = nullptr;  // [T, 2 I], overwritten by its gradient
};
void LoraGatedLinearBackward(const LoraGatedLinearBackwardArgs& args, Stream* stream);

// The product as gated_linear.h sees it.
inline GatedLinearSpec GateSpecOf(const LoraGatedLinearForwardArgs& args) {
  const LoraLinearSpec& linear = args.linear.spec;
  return {linear.dtype, linear.in_features, linear.columns() / 2, args.activation};
}
inline GatedLinearSpec GateSpecOf(const LoraGatedLinearBackwardArgs& args) {
  const LoraLinearSpec& linear = args.linear.spec;
  return {linear.dtype, linear.columns(), linear.in_features, args.activation};
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LORA_LORA_GATED_LINEAR_H_
