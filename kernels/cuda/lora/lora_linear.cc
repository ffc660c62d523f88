// A linear with adapters: its contract, and the order of its terms.
#include "kernels/lora/lora_linear.h"

#include "kernels/cuda/lora/lora_workspace.h"
#include "kernels/lora/lora_base.h"

namespace coxswain::kernels {

bool LoraLinearSupports(const LoraLinearSpec& spec) {
  if (!GemmSupports({.dtype = spec.dtype, .output_dtype = spec.grad_dtype})) return false;
  if (spec.members.empty() || spec.rank < 1 || spec.columns() > spec.ldy) return false;
  for (const LoraMember& member : spec.members) {
    if (member.out_features < 1 || member.column_offset < 0 ||
        member.column_offset + member.out_features > spec.columns()) {
      return false;
    }
  }
  return DropoutSupports(
      {.dtype = spec.dtype, .columns = spec.in_features, .rate = spec.dropout_rate});
}

int64_t LoraLinearForwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return GemmWorkspaceBytes() + cuda::DroppedBytes(spec, rows);
}

int64_t LoraLinearBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return GemmWorkspaceBytes() + cuda::GradientBytes(spec, rows) + cuda::DroppedBytes(spec, rows);
}

void LoraLinearForward(const LoraLinearForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(LoraLinearSupports(args.spec), "LoraLinear");
  cuda::RequireExtent(args.rows, "LoraLinear", "rows");
  cuda::RequireWorkspace(args.workspace, LoraLinearForwardWorkspaceBytes(args.spec, args.rows),
                         "LoraLinear");
  LoraProjection(args, stream);
  LoraOutput(args, stream);
}

void LoraLinearBackward(const LoraLinearBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(LoraLinearSupports(args.spec), "LoraLinear");
  cuda::RequireExtent(args.rows, "LoraLinear", "rows");
  cuda::RequireWorkspace(args.workspace, LoraLinearBackwardWorkspaceBytes(args.spec, args.rows),
                         "LoraLinear");
  LoraMemberGradients(args, stream);
  LoraGradientOfA(args, stream);
  if (args.dx != nullptr) LoraInputGradient(args, stream);
}

}  // namespace coxswain::kernels
