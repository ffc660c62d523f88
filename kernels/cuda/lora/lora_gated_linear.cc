// Gated products with adapters: h or g, then one launch or several by the table.
#include "kernels/lora/lora_gated_linear.h"

#include "kernels/cuda/lora/lora_product.h"
#include "kernels/cuda/lora/lora_workspace.h"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/fused_gated_linear.h"
#include "kernels/lora/lora_base.h"

namespace coxswain::kernels {
namespace {

GatedLinearForwardArgs GatedArgs(const LoraGatedLinearForwardArgs& args) {
  return {.spec = GateSpecOf(args),
          .rows = args.linear.rows,
          .x = args.linear.x,
          .weight = args.linear.weight,
          .gate_up = args.linear.y,
          .y = args.product};
}
GatedLinearBackwardArgs GatedArgs(const LoraGatedLinearBackwardArgs& args) {
  return {.spec = GateSpecOf(args),
          .rows = args.linear.rows,
          .dout = args.linear.dy,
          .weight = args.linear.weight,
          .gate_up = args.gate_up,
          .y = args.linear.dx,
          .wants_y = args.linear.x == nullptr};
}

// Rows of W and V next to each other, and gate and up both adapted.
bool Fuses(const LoraGatedLinearForwardArgs& args) {
  const LoraLinearForwardArgs& linear = args.linear;
  const LoraLinearSpec& spec = linear.spec;
  if (!cuda::LoraProductTakes(spec) || !cuda::FusedGatedLinearRuns(GatedArgs(args)) ||
      linear.bias != nullptr || linear.accumulate_y || spec.ldy != spec.columns() ||
      spec.members.size() != 2 || !cuda::AllAligned(linear.h)) {
    return false;
  }
  const int64_t inner = spec.columns() / 2;
  const LoraMember &gate = spec.members[0], &up = spec.members[1];
  return gate.column_offset == 0 && gate.out_features == inner && up.column_offset == inner &&
         up.out_features == inner && cuda::AllAligned(gate.b, up.b);
}
bool Fuses(const LoraGatedLinearBackwardArgs& args) {
  const LoraLinearSpec& spec = args.linear.spec;
  return cuda::LoraProductRuns(args.linear) && cuda::FusedGatedLinearRuns(GatedArgs(args)) &&
         spec.ldy == spec.columns();
}

void FusedForward(const LoraGatedLinearForwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.linear.spec;
  const cuda::GatedForwardAdapters adapters{
      .h = args.linear.h, .b = {spec.members[0].b, spec.members[1].b}, .rank = spec.rank};
  cuda::FusedGatedLinearForward(GatedArgs(args), &adapters, stream);
}
void FusedBackward(const LoraGatedLinearBackwardArgs& args, Stream* stream) {
  const cuda::GatedBackwardAdapter adapter{.g = cuda::GradientOfH(args.linear),
                                           .a = args.linear.a,
                                           .rank = args.linear.spec.stacked_rank()};
  cuda::FusedGatedLinearBackward(GatedArgs(args), &adapter, stream);
}

template <typename Args>
cuda::GatedKey KeyOf(const Args& args, bool backward) {
  const GatedLinearSpec spec = GateSpecOf(args);
  return {.backward = backward,
          .rows = args.linear.rows,
          .hidden = spec.hidden,
          .intermediate = spec.intermediate,
          .activation = spec.activation,
          .rank = args.linear.spec.rank};
}

template <typename Args>
void Validate(const Args& args, int64_t workspace_bytes) {
  cuda::RequireSupported(
      LoraLinearSupports(args.linear.spec) && GatedLinearSupports(GateSpecOf(args)),
      "LoraGatedLinear");
  cuda::RequireExtent(args.linear.rows, "LoraGatedLinear", "rows");
  cuda::RequireWorkspace(args.linear.workspace, workspace_bytes, "LoraGatedLinear");
}

}  // namespace

void LoraGatedLinearForward(const LoraGatedLinearForwardArgs& args, Stream* stream) {
  Validate(args, LoraLinearForwardWorkspaceBytes(args.linear.spec, args.linear.rows));
  if (args.linear.rows == 0) return;
  LoraProjection(args.linear, stream);
  cuda::LaunchFaster(
      Fuses(args), KeyOf(args, false), [&] { FusedForward(args, stream); },
      [&] { PlainLoraGate(args, stream); }, stream);
}

void LoraGatedLinearBackward(const LoraGatedLinearBackwardArgs& args, Stream* stream) {
  LoraLinearBackwardArgs down = args.linear;
  Validate(args, LoraLinearBackwardWorkspaceBytes(down.spec, down.rows));
  if (down.rows == 0) return;
  LoraMemberGradients(down, stream);
  if (down.x != nullptr) LoraGradientOfA(down, stream);
  cuda::LaunchFaster(
      Fuses(args), KeyOf(args, true), [&] { FusedBackward(args, stream); },
      [&] { PlainLoraGateGradient(args, stream); }, stream);
  if (down.x != nullptr) return;
  down.x = down.dx;
  LoraGradientOfA(down, stream);
}

}  // namespace coxswain::kernels
