#include <variant>

#include "kernels/activations/gates.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/lora/lora_gated_linear.h"
#include "kernels/norms/norms.h"
#include "kernels/products/gated_linear.h"
#include "worker/engine/ops/experts.h"
#include "worker/engine/ops/linear.h"
#include "worker/engine/ops/op_specs.h"
#include "worker/engine/ops/router.h"
#include "worker/engine/ops/run_ops.h"

namespace coxswain::engine {
namespace {

void LayerNormGradient(const Sweep& sweep, const BoundNorm& op) {
  kernels::LayerNormBackwardArgs norm;
  norm.spec = op.layer;
  norm.rows = sweep.batch.tokens;
  norm.dy = op.dy;
  norm.x = op.x;
  norm.weight = op.norm->weight.value;
  norm.mean = op.mean;
  norm.rstd = op.rstd;
  norm.accumulate_dx = op.accumulates;
  norm.dx = op.dx;
  norm.dweight = op.norm->weight.gradient;
  norm.dbias = op.norm->bias.gradient;
  norm.amax = op.amax.gradient;
  norm.workspace = sweep.buffers.scratch;
  kernels::LayerNormBackward(norm, sweep.stream);
}

kernels::AttentionBackwardArgs AttentionArgs(const Sweep& sweep, const BoundAttention& op) {
  kernels::AttentionBackwardArgs attention;
  attention.spec = op.spec;
  attention.tokens = sweep.batch.tokens;
  attention.documents = DocumentsOf(sweep);
  attention.in = kernels::PackedInputs(attention.spec, op.qkv);
  attention.sinks = op.sinks->value;
  attention.sink_gradient = static_cast<float*>(op.sinks->gradient);
  attention.out = op.out;
  attention.lse = op.lse;
  attention.dout = op.dout;
  attention.gradients = kernels::PackedOutputs(attention.spec, op.dqkv);
  attention.workspace = sweep.buffers.scratch;
  return attention;
}

// With the op of the gate.
struct ProductGradient {
  const Sweep& sweep;
  const BoundGate& gate;

  void operator()(const kernels::SwigluSpec& spec) const {
    kernels::SwigluBackward(Args<kernels::SwigluBackwardArgs>(spec), sweep.stream);
  }
  void operator()(const kernels::GegluSpec& spec) const {
    kernels::GegluBackward(Args<kernels::GegluBackwardArgs>(spec), sweep.stream);
  }
  void operator()(const kernels::ClampedSwigluSpec& spec) const {
    kernels::ClampedSwigluBackward(Args<kernels::ClampedSwigluBackwardArgs>(spec), sweep.stream);
  }

 private:
  template <typename OfOp, typename Spec>
  OfOp Args(const Spec& spec) const {
    return {.spec = spec,
            .rows = sweep.batch.tokens * gate.rows_per_token,
            .dy = gate.dy,
            .gate_up = gate.gate_up,
            .amax = gate.amax.gradient};
  }
};

// From the gradient of the branch to that of gate_up in its place; adapters get theirs.
void DownInputGradient(const Sweep& sweep, const BoundGateDown& op) {
  if (!op.down.linear->adapters.members.empty()) {
    kernels::LoraGatedLinearBackwardArgs adapted;
    adapted.linear = AdaptedBackwardArgs(sweep, op.down);
    if (op.product_comes_back) adapted.linear.x = nullptr;
    adapted.activation = op.spec.activation;
    adapted.gate_up = op.gate.gate_up;
    return kernels::LoraGatedLinearBackward(adapted, sweep.stream);
  }
  kernels::GatedLinearBackwardArgs gated;
  gated.spec = op.spec;
  gated.rows = sweep.batch.tokens;
  gated.dout = op.down.dy;
  gated.weight = op.down.linear->weight.value;
  gated.gate_up = op.gate.gate_up;
  gated.y = op.gate.dy;
  gated.wants_y = op.product_comes_back;
  gated.workspace = sweep.buffers.scratch;
  kernels::GatedLinearBackward(gated, sweep.stream);
}

struct Backward {
  const Sweep& sweep;

  void operator()(const BoundNorm& op) const { NormBackward(sweep, op); }
  void operator()(const BoundLinear& op) const { LinearBackward(sweep, op); }

  void operator()(const BoundQkNorm& op) const {
    kernels::QkNormBackwardArgs norm;
    norm.spec = op.spec;
    norm.tokens = sweep.batch.tokens;
    norm.dqkv = op.dqkv;
    norm.saved_qk = op.raw;
    norm.rstd = op.rstd;
    norm.q_weight = op.norm->q.value;
    norm.k_weight = op.norm->k.value;
    norm.dq_weight = op.norm->q.gradient;
    norm.dk_weight = op.norm->k.gradient;
    norm.workspace = sweep.buffers.scratch;
    kernels::QkNormBackward(norm, sweep.stream);
  }

  void operator()(const BoundRotation& op) const {
    kernels::RopeBackward(RotationArgs(sweep, op, op.dqkv), sweep.stream);
  }

  void operator()(const BoundAttention& op) const {
    kernels::AttentionBackward(AttentionArgs(sweep, op), sweep.stream);
  }
  void operator()(const BoundRotatedAttention& op) const {
    const kernels::RopeArgs rotation = RotationArgs(sweep, op.rotation, op.rotation.dqkv);
    kernels::AttentionBackwardArgs attention = AttentionArgs(sweep, op.attention);
    attention.rotation = &rotation;
    kernels::AttentionBackward(attention, sweep.stream);
  }

  void operator()(const BoundGate& op) const { std::visit(ProductGradient{sweep, op}, op.spec); }

  void operator()(const BoundActivation& op) const {
    kernels::GeluBackwardArgs gelu;
    gelu.spec = op.spec;
    gelu.rows = sweep.batch.tokens;
    gelu.dy = op.dy;
    gelu.x = op.x;
    gelu.amax = op.amax.gradient;
    kernels::GeluBackward(gelu, sweep.stream);
  }

  void operator()(const BoundRoute& op) const { RouteBackward(sweep, op); }
  void operator()(const BoundDispatch& op) const { DispatchBackward(sweep, op); }
  void operator()(const BoundGroupedLinear& op) const { ExpertsBackward(sweep, op); }
  void operator()(const BoundCombine& op) const { CombineBackward(sweep, op); }

  void operator()(const BoundSigmoidGate& op) const {
    kernels::SigmoidGateBackwardArgs gate;
    gate.spec = op.spec;
    gate.rows = sweep.batch.tokens;
    gate.logits = op.logits;
    gate.x = op.x;
    gate.dy = op.dy;
    gate.dx = op.wants_x ? op.x : nullptr;
    gate.dlogits = op.wants_logits ? op.logits : nullptr;
    kernels::SigmoidGateBackward(gate, sweep.stream);
  }

  void operator()(const BoundSplit& op) const {
    kernels::SplitRowsBackward({.spec = op.spec,
                                .rows = sweep.batch.tokens,
                                .dfirst = op.dfirst,
                                .dsecond = op.dsecond,
                                .dx = op.dx},
                               sweep.stream);
  }

  void operator()(const BoundLatentHeads& op) const {
    kernels::LatentHeadsBackwardArgs heads;
    heads.spec = op.spec;
    heads.tokens = sweep.batch.tokens;
    heads.places = PlacesOf(sweep, op);
    heads.dqkv = op.dqkv;
    heads.dq = op.dq;
    heads.dkv = op.dkv;
    heads.dk_rope = op.dk_rope;
    kernels::LatentHeadsBackward(heads, sweep.stream);
  }

  void operator()(const BoundGateDown& op) const {
    BoundLinear down = op.down;
    if (op.product_comes_back) {
      DownInputGradient(sweep, op);
      down.x = op.gate.dy;
      return LinearParameterGradients(sweep, down);
    }
    LinearParameterGradients(sweep, down);
    DownInputGradient(sweep, op);
  }

  // The gradient of a sum is that of its parts; the fused ops of forward are not in these lists.
  void operator()(const BoundAdd& /*op*/) const {}
  void operator()(const BoundLinearRotation& /*op*/) const {}
  void operator()(const BoundLinearAdd& /*op*/) const {}
  void operator()(const BoundAddNorm& /*op*/) const {}
  void operator()(const BoundGatedLinear& /*op*/) const {}
  void operator()(const BoundGroupedGatedLinear& /*op*/) const {}
};

}  // namespace

void NormBackward(const Sweep& sweep, const BoundNorm& op) {
  if (op.layer_norm) return LayerNormGradient(sweep, op);
  kernels::RmsNormBackwardArgs norm;
  norm.spec = op.rms;
  norm.rows = sweep.batch.tokens;
  norm.dy = op.dy;
  norm.x = op.x;
  norm.weight = op.norm->weight.value;
  norm.rstd = op.rstd;
  norm.accumulate_dx = op.accumulates;
  norm.dx = op.dx;
  norm.dweight = op.norm->weight.gradient;
  norm.amax = op.amax.gradient;
  norm.workspace = sweep.buffers.scratch;
  kernels::RmsNormBackward(norm, sweep.stream);
}

void RunBackward(const Sweep& sweep, const BoundOp& op) { std::visit(Backward{sweep}, op); }

}  // namespace coxswain::engine
