#include "kernels/lora/plain_lora_gated_linear.h"

#include "kernels/lora/lora_terms.h"
#include "kernels/products/plain_gated_linear.h"

namespace coxswain::kernels {

void PlainLoraGate(const LoraGatedLinearForwardArgs& args, Stream* stream) {
  LoraOutput(args.linear, stream);
  PlainGate(GateSpecOf(args), args.linear.rows, args.linear.y, args.product, stream);
}

void PlainLoraGateGradient(const LoraGatedLinearBackwardArgs& args, Stream* stream) {
  LoraInputGradient(args.linear, stream);
  PlainGateGradient(GateSpecOf(args), args.linear.rows, args.linear.dx, args.gate_up,
                    args.linear.x == nullptr, stream);
}

}  // namespace coxswain::kernels
