#include "kernels/lora/lora_base.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/products/gemm.h"
#include "kernels/products/plain_products.h"

namespace coxswain::kernels {
namespace {

// The front of the workspace, where products have theirs.
Workspace ProductScratch(const Workspace& workspace) {
  return {.data = workspace.data, .bytes = std::min(workspace.bytes, GemmWorkspaceBytes())};
}

}  // namespace

void LoraBaseOutput(const LoraLinearForwardArgs& args, bool accumulate, Stream* stream) {
  if (args.weight == nullptr) {
    if (args.accumulate_y && args.bias == nullptr) return;
    throw std::invalid_argument(
        "LoraLinear: y without a weight needs accumulate_y, and takes no bias");
  }
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = true},
        .m = args.rows,
        .n = spec.columns(),
        .k = spec.in_features,
        .alpha = spec.weight_scale,
        .a = args.x,
        .lda = spec.in_features,
        .b = args.weight,
        .ldb = spec.in_features,
        .beta = accumulate ? 1.0f : 0.0f,
        .c = args.y,
        .ldc = spec.ldy,
        .bias = args.bias,
        .workspace = ProductScratch(args.workspace)},
       stream);
}

void LoraBaseInputGradient(const LoraLinearBackwardArgs& args, bool accumulate, Stream* stream) {
  if (args.weight == nullptr) {
    if (args.accumulate_dx) return;
    throw std::invalid_argument("LoraLinear: dx without a weight needs accumulate_dx");
  }
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype},
        .m = args.rows,
        .n = spec.in_features,
        .k = spec.columns(),
        .alpha = spec.weight_scale,
        .a = args.dy,
        .lda = spec.ldy,
        .b = args.weight,
        .ldb = spec.in_features,
        .beta = accumulate ? 1.0f : 0.0f,
        .c = args.dx,
        .ldc = spec.in_features,
        .workspace = ProductScratch(args.workspace)},
       stream);
}

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
