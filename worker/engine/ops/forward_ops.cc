#include <variant>

#include "kernels/activations/gates.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/lora/lora_gated_linear.h"
#include "kernels/norms/norms.h"
#include "kernels/products/gated_linear.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/ops/experts.h"
#include "worker/engine/ops/linear.h"
#include "worker/engine/ops/op_specs.h"
#include "worker/engine/ops/router.h"
#include "worker/engine/ops/run_ops.h"

namespace coxswain::engine {
namespace {

void LayerNorm(const Sweep& sweep, const BoundNorm& op) {
  kernels::LayerNormForwardArgs norm;
  norm.spec = op.layer;
  norm.rows = sweep.batch.tokens;
  norm.x = op.x;
  norm.weight = op.norm->weight.value;
  norm.bias = op.norm->bias.value;
  norm.y = op.y;
  norm.mean = op.mean;
  norm.rstd = op.rstd;
  norm.amax = sweep.AmaxOf(op.amax);
  kernels::LayerNormForward(norm, sweep.stream);
}

// With the op of the gate.
struct Product {
  const Sweep& sweep;
  const BoundGate& gate;

  void operator()(const kernels::SwigluSpec& spec) const {
    kernels::SwigluForward(Args<kernels::SwigluForwardArgs>(spec), sweep.stream);
  }
  void operator()(const kernels::GegluSpec& spec) const {
    kernels::GegluForward(Args<kernels::GegluForwardArgs>(spec), sweep.stream);
  }
  void operator()(const kernels::ClampedSwigluSpec& spec) const {
    kernels::ClampedSwigluForward(Args<kernels::ClampedSwigluForwardArgs>(spec), sweep.stream);
  }

 private:
  template <typename OfOp, typename Spec>
  OfOp Args(const Spec& spec) const {
    return {.spec = spec,
            .rows = sweep.batch.tokens * gate.rows_per_token,
            .gate_up = gate.gate_up,
            .y = gate.y,
            .amax = sweep.AmaxOf(gate.amax)};
  }
};

void KeepKeys(const Sweep& sweep, const BoundAttention& op) {
  kernels::CacheAppendArgs append;
  append.spec = CachedSpec(op.spec, sweep.model.generation_length);
  append.rows = CacheRowsOf(sweep);
  append.qkv = op.qkv;
  append.cache = op.cache;
  kernels::CacheAppend(append, sweep.stream);
}

void AttendToCache(const Sweep& sweep, const BoundAttention& op) {
  kernels::CachedAttentionArgs attention;
  attention.spec = CachedSpec(op.spec, sweep.model.generation_length);
  attention.rows = CacheRowsOf(sweep);
  attention.qkv = op.qkv;
  attention.cache = op.cache;
  attention.sinks = op.sinks->value;
  attention.out = op.out;
  attention.workspace = sweep.buffers.scratch;
  kernels::CachedAttention(attention, sweep.stream);
}

struct Forward {
  const Sweep& sweep;

  void operator()(const BoundNorm& op) const {
    if (op.layer_norm) return LayerNorm(sweep, op);
    kernels::RmsNormForwardArgs norm;
    norm.spec = op.rms;
    norm.rows = sweep.batch.tokens;
    norm.x = op.x;
    norm.weight = op.norm->weight.value;
    norm.y = op.y;
    norm.rstd = op.rstd;
    norm.amax = sweep.AmaxOf(op.amax);
    kernels::RmsNormForward(norm, sweep.stream);
  }

  void operator()(const BoundLinear& op) const { LinearForward(sweep, op); }

  void operator()(const BoundQkNorm& op) const {
    kernels::QkNormForwardArgs norm;
    norm.spec = op.spec;
    norm.tokens = sweep.batch.tokens;
    norm.qkv = op.qkv;
    norm.q_weight = op.norm->q.value;
    norm.k_weight = op.norm->k.value;
    norm.saved_qk = op.raw;
    norm.rstd = op.rstd;
    kernels::QkNormForward(norm, sweep.stream);
  }

  void operator()(const BoundRotation& op) const {
    kernels::RopeForward(RotationArgs(sweep, op, op.qkv), sweep.stream);
  }

  void operator()(const BoundAttention& op) const {
    if (sweep.cache != CacheUse::kNone) KeepKeys(sweep, op);
    if (sweep.cache == CacheUse::kRead) return AttendToCache(sweep, op);
    kernels::AttentionForwardArgs attention;
    attention.spec = sweep.cache == CacheUse::kNone ? op.spec : InComputeDtype(op.spec);
    attention.tokens = sweep.batch.tokens;
    attention.documents = DocumentsOf(sweep);
    attention.in = kernels::PackedInputs(attention.spec, op.qkv);
    attention.sinks = op.sinks->value;
    attention.out = op.out;
    attention.lse = op.lse;
    if (attention.spec.fp8) attention.rounded = kernels::PackedOutputs(attention.spec, op.qkv);
    attention.workspace = sweep.buffers.scratch;
    kernels::AttentionForward(attention, sweep.stream);
  }

  void operator()(const BoundGate& op) const { std::visit(Product{sweep, op}, op.spec); }

  void operator()(const BoundActivation& op) const {
    kernels::GeluForwardArgs gelu;
    gelu.spec = op.spec;
    gelu.rows = sweep.batch.tokens;
    gelu.x = op.x;
    gelu.y = op.y;
    gelu.amax = sweep.AmaxOf(op.amax);
    kernels::GeluForward(gelu, sweep.stream);
  }

  void operator()(const BoundAdd& op) const {
    kernels::AddArgs add;
    add.dtype = add.x_dtype = sweep.model.compute_dtype;
    add.count = sweep.batch.tokens * op.width;
    add.x = op.branch;
    add.y = op.out;
    kernels::CopyMemory(op.out, op.stream, add.count * kernels::DTypeBytes(add.dtype),
                        sweep.stream);
    kernels::Add(add, sweep.stream);
  }

  void operator()(const BoundRoute& op) const { RouteForward(sweep, op); }
  void operator()(const BoundDispatch& op) const { DispatchForward(sweep, op); }
  void operator()(const BoundGroupedLinear& op) const { ExpertsForward(sweep, op); }
  void operator()(const BoundGroupedGatedLinear& op) const { GatedExpertsForward(sweep, op); }
  void operator()(const BoundCombine& op) const { CombineForward(sweep, op); }

  void operator()(const BoundSigmoidGate& op) const {
    kernels::SigmoidGateForwardArgs gate;
    gate.spec = op.spec;
    gate.rows = sweep.batch.tokens;
    gate.logits = op.logits;
    gate.x = op.x;
    gate.y = op.y;
    kernels::SigmoidGateForward(gate, sweep.stream);
  }

  void operator()(const BoundSplit& op) const {
    kernels::SplitRowsForward({.spec = op.spec,
                               .rows = sweep.batch.tokens,
                               .x = op.x,
                               .first = op.first,
                               .second = op.second},
                              sweep.stream);
  }

  void operator()(const BoundLatentHeads& op) const {
    kernels::LatentHeadsForwardArgs heads;
    heads.spec = op.spec;
    heads.tokens = sweep.batch.tokens;
    heads.places = PlacesOf(sweep, op);
    heads.q = op.q;
    heads.kv = op.kv;
    heads.k_rope = op.k_rope;
    heads.qkv = op.qkv;
    kernels::LatentHeadsForward(heads, sweep.stream);
  }

  void operator()(const BoundLinearRotation& op) const { LinearRotationForward(sweep, op); }
  void operator()(const BoundLinearAdd& op) const { LinearAddForward(sweep, op); }

  void operator()(const BoundAddNorm& op) const {
    kernels::AddRmsNormForwardArgs norm;
    norm.spec = op.norm.rms;
    norm.rows = sweep.batch.tokens;
    norm.x = op.add.branch;
    norm.residual = op.add.stream;
    norm.weight = op.norm.norm->weight.value;
    norm.sum = op.add.out;
    norm.y = op.norm.y;
    norm.rstd = op.norm.rstd;
    norm.amax = sweep.AmaxOf(op.norm.amax);
    kernels::AddRmsNormForward(norm, sweep.stream);
  }

  void operator()(const BoundGatedLinear& op) const {
    if (!op.linear.linear->adapters.members.empty()) {
      kernels::LoraGatedLinearForwardArgs adapted;
      adapted.linear = AdaptedForwardArgs(sweep, op.linear);
      adapted.activation = op.spec.activation;
      adapted.product = op.wants_product ? op.gate.y : nullptr;
      return kernels::LoraGatedLinearForward(adapted, sweep.stream);
    }
    kernels::GatedLinearForwardArgs gated;
    gated.spec = op.spec;
    gated.rows = sweep.batch.tokens;
    gated.x = op.linear.x;
    gated.weight = op.linear.linear->weight.value;
    gated.gate_up = op.gate.gate_up;
    gated.y = op.wants_product ? op.gate.y : nullptr;
    gated.workspace = sweep.buffers.scratch;
    kernels::GatedLinearForward(gated, sweep.stream);
  }

  // Of backward alone.
  void operator()(const BoundGateDown& /*op*/) const {}
  void operator()(const BoundRotatedAttention& /*op*/) const {}
};

}  // namespace

void RunForward(const Sweep& sweep, const BoundOp& op) { std::visit(Forward{sweep}, op); }

}  // namespace coxswain::engine
