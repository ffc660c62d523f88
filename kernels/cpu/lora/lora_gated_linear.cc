#include "kernels/lora/lora_gated_linear.h"

#include "kernels/cpu/check.h"
#include "kernels/lora/lora_terms.h"
#include "kernels/lora/plain_lora_gated_linear.h"

namespace coxswain::kernels {
namespace {

template <typename Args>
void Validate(const Args& args, int64_t workspace_bytes) {
  cpu::RequireSupported(
      LoraLinearSupports(args.linear.spec) && GatedLinearSupports(GateSpecOf(args)),
      "LoraGatedLinear");
  cpu::RequireWorkspace(args.linear.workspace, workspace_bytes, "LoraGatedLinear");
}

}  // namespace

void LoraGatedLinearForward(const LoraGatedLinearForwardArgs& args, Stream* stream) {
  Validate(args, LoraLinearForwardWorkspaceBytes(args.linear.spec, args.linear.rows));
  LoraProjection(args.linear, stream);
  PlainLoraGate(args, stream);
}

void LoraGatedLinearBackward(const LoraGatedLinearBackwardArgs& args, Stream* stream) {
  LoraLinearBackwardArgs down = args.linear;
  Validate(args, LoraLinearBackwardWorkspaceBytes(down.spec, down.rows));
  LoraMemberGradients(down, stream);
  if (down.x != nullptr) LoraGradientOfA(down, stream);
  PlainLoraGateGradient(args, stream);
  if (down.x != nullptr) return;
  down.x = down.dx;
  LoraGradientOfA(down, stream);
}

}  // namespace coxswain::kernels
