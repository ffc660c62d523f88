// Fusions of a linear with the op behind it.
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fused_ops.h"

namespace coxswain::plan {

// The product of q, k and v with the rotation that follows: kernels/products/rotated_linear.h. An
// adapted linear's output is not one product's; a norm of q and k between the two keeps them apart.

namespace {

int64_t FuseLinearRotate(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::RotateOp& rotate,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != rotate.qkv || adapted.Has(linear, layer) || InFp8(plan, linear, layer)) {
      return std::nullopt;
    }
    return model::LinearRotateOp{linear, rotate};
  };
  return FusePairs<model::LinearOp, model::RotateOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kLinearRotateFusion = {.name = "linear_rotate", .rewrite = &FuseLinearRotate};

// A linear and the add of its output to the stream: the addend of kernels/products/gemm.h. One
// product reads the stream and writes the next, and no norm behind it adds. An adapted linear's
// output is not one product's; one that adds to what another wrote has an addend already.

namespace {

int64_t FuseLinearAdd(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::AddOp& add,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != add.branch || linear.adds || adapted.Has(linear, layer)) return std::nullopt;
    return model::LinearAddOp{linear, add};
  };
  return FusePairs<model::LinearOp, model::AddOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kLinearAddFusion = {.name = "linear_add", .rewrite = &FuseLinearAdd};

// The product of gate and up with the activation that follows: kernels/products/gated_linear.h,
// forward, and kernels/lora/lora_gated_linear.h where adapted.

namespace {

bool HasBias(const model::LinearOp& linear) {
  return linear.members.front().bias != model::kNoTensor;
}

int64_t FuseGatedLinear(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& linear, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    // DoRA scales the sum before the activation reads it.
    if (linear.out != gate.in || HasBias(linear) || InFp8(plan, linear, layer) ||
        gate.activation == model::Activation::kClampedSilu ||
        (plan.lora.dora && adapted.Has(linear, layer))) {
      return std::nullopt;
    }
    return model::GatedLinearOp{linear, gate};
  };
  return FusePairs<model::LinearOp, model::GateOp>(plan.model.num_layers, &lists->forward, fuse);
}

}  // namespace

const Fusion kGatedLinearFusion = {.name = "gated_linear", .rewrite = &FuseGatedLinear};

// The product of gate and up of a mixture's experts with the gate that follows:
// kernels/experts/grouped_gated_linear.h, forward. An adapter of the experts adds to the product's
// output before the gate reads it.

namespace {

bool HasKernel(model::Activation activation) {
  return activation == model::Activation::kSilu || activation == model::Activation::kClampedSilu;
}

int64_t FuseGroupedGatedLinear(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::GroupedLinearOp& linear, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    if (linear.out != gate.in || !HasKernel(gate.activation) || InFp8(plan, linear, layer) ||
        adapted.Has(linear.weight, layer)) {
      return std::nullopt;
    }
    return model::GroupedGatedLinearOp{linear, gate};
  };
  return FusePairs<model::GroupedLinearOp, model::GateOp>(plan.model.num_layers, &lists->forward,
                                                          fuse);
}

}  // namespace

const Fusion kGroupedGatedLinearFusion = {.name = "grouped_gated_linear",
                                          .rewrite = &FuseGroupedGatedLinear};

// The input gradient of the down projection with that of the activation before it:
// kernels/products/gated_linear.h, backward, and kernels/lora/lora_gated_linear.h where adapted.

namespace {

int64_t FuseGateDown(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  const auto fuse = [&](const model::LinearOp& down, const model::GateOp& gate,
                        int64_t layer) -> std::optional<model::Op> {
    // DoRA has the gradient of its sum alone.
    if (down.in != gate.out || InFp8(plan, down, layer) ||
        gate.activation == model::Activation::kClampedSilu ||
        (plan.lora.dora && adapted.Has(down, layer)))
      return std::nullopt;
    return model::GateDownOp{gate, down};
  };
  return FusePairs<model::LinearOp, model::GateOp>(plan.model.num_layers, &lists->backward, fuse);
}

}  // namespace

const Fusion kGateDownFusion = {.name = "gate_down", .rewrite = &FuseGateDown};

}  // namespace coxswain::plan
