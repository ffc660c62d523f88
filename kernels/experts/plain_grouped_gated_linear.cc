#include "kernels/experts/plain_grouped_gated_linear.h"

#include "kernels/activations/gates.h"
#include "kernels/experts/grouped_linear.h"

namespace coxswain::kernels {
namespace {

GroupedLinearSpec ForLinear(const GroupedGatedLinearSpec& spec) {
  return {.dtype = spec.dtype,
          .experts = spec.experts,
          .in_features = spec.in_features,
          .out_features = 2 * spec.intermediate};
}
bool IsClamped(const GroupedGatedLinearSpec& spec) { return spec.limit != 0.0f; }
SwigluSpec ForSwiglu(const GroupedGatedLinearSpec& spec) {
  return {.dtype = spec.dtype, .intermediate = spec.intermediate};
}
ClampedSwigluSpec ForClamped(const GroupedGatedLinearSpec& spec) {
  return {.dtype = spec.dtype,
          .intermediate = spec.intermediate,
          .alpha = spec.alpha,
          .limit = spec.limit};
}

}  // namespace

bool PlainGroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec) {
  return GroupedLinearSupports(ForLinear(spec)) &&
         (IsClamped(spec) ? ClampedSwigluSupports(ForClamped(spec))
                          : SwigluSupports(ForSwiglu(spec)));
}

// The gate reads all rows, so it waits for the last experts.
void PlainGroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  GroupedLinearForward({.spec = ForLinear(args.spec),
                        .rows = args.rows,
                        .offsets = args.offsets,
                        .x = args.x,
                        .weight = args.weight,
                        .bias = args.bias,
                        .y = args.gate_up,
                        .zeros_behind = args.zeros_behind},
                       stream);
  if (!args.zeros_behind) return;
  if (IsClamped(args.spec)) {
    ClampedSwigluForward(
        {.spec = ForClamped(args.spec), .rows = args.rows, .gate_up = args.gate_up, .y = args.y},
        stream);
  } else {
    SwigluForward(
        {.spec = ForSwiglu(args.spec), .rows = args.rows, .gate_up = args.gate_up, .y = args.y},
        stream);
  }
}

}  // namespace coxswain::kernels
