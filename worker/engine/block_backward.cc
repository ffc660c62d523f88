#include "kernels/gated_linear.h"
#include "kernels/swiglu.h"
#include "worker/engine/block.h"
#include "worker/engine/linear.h"

namespace coxswain::engine {
namespace {

struct NormBackwardArgs {
  const void* x = nullptr;  // what was normalised
  const float* rstd = nullptr;
  const Tensor* weight = nullptr;
};

// dres += gradient of the norm's input, from dnorm.
void NormBackward(const Sweep& sweep, const NormBackwardArgs& args) {
  kernels::RmsNormBackwardArgs norm;
  norm.spec = NormSpec(sweep.model);
  norm.rows = sweep.batch.tokens;
  norm.dy = sweep.buffers.dnorm;
  norm.x = args.x;
  norm.weight = args.weight->value;
  norm.rstd = args.rstd;
  norm.dx = sweep.buffers.dres;
  norm.dweight = args.weight->gradient;
  norm.workspace = sweep.buffers.scratch;
  kernels::RmsNormBackward(norm, sweep.stream);
}

void GegluGradient(const Sweep& sweep, const LayerBuffers& own) {
  kernels::GegluBackwardArgs geglu;
  geglu.spec = GateSpec(sweep.model);
  geglu.rows = sweep.batch.tokens;
  geglu.dy = sweep.buffers.dswiglu;
  geglu.gate_up = own.gate_up;
  kernels::GegluBackward(geglu, sweep.stream);
}

void GatedProductGradient(const Sweep& sweep, const LayerBuffers& own) {
  if (!UsesSwiglu(sweep.model)) return GegluGradient(sweep, own);
  kernels::SwigluBackwardArgs swiglu;
  swiglu.spec.dtype = sweep.model.dtype;
  swiglu.spec.intermediate = sweep.model.config.intermediate_size;
  swiglu.rows = sweep.batch.tokens;
  swiglu.dy = sweep.buffers.dswiglu;
  swiglu.gate_up = own.gate_up;
  kernels::SwigluBackward(swiglu, sweep.stream);
}

// From dres to the gradient of gate_up in its place; where wanted swiglu comes back in dswiglu.
void DownInputGradient(const Sweep& sweep, const Linear& linear, const LayerBuffers& own,
                       bool wants_swiglu) {
  kernels::GatedLinearBackwardArgs gated;
  gated.spec = GatedSpec(sweep.model);
  gated.rows = sweep.batch.tokens;
  gated.dout = sweep.buffers.dres;
  gated.weight = linear.weight.value;
  gated.gate_up = own.gate_up;
  gated.y = sweep.buffers.dswiglu;
  gated.wants_y = wants_swiglu;
  gated.workspace = sweep.buffers.scratch;
  kernels::GatedLinearBackward(gated, sweep.stream);
}

void MlpBackward(const Sweep& sweep, int64_t layer) {
  const Block& block = sweep.model.blocks[layer];
  const LayerBuffers& own = sweep.buffers.layers[layer];
  LinearBackwardArgs down{&block.down,           own.swiglu, own.lora_h,         sweep.buffers.dres,
                          sweep.buffers.dswiglu, own.down_u, sweep.buffers.dnorm};
  if (block.down.adapters.members > 0 || !UsesSwiglu(sweep.model)) {
    LinearBackward(sweep, down);
    GatedProductGradient(sweep, own);
  } else if (SwigluComesBack(sweep.model, layer)) {
    DownInputGradient(sweep, block.down, own, /*wants_swiglu=*/true);
    down.x = sweep.buffers.dswiglu;
    LinearParameterGradients(sweep, down);
  } else {
    LinearParameterGradients(sweep, down);
    DownInputGradient(sweep, block.down, own, /*wants_swiglu=*/false);
  }
  LinearBackward(sweep, {&block.gate_up, own.ln2, own.lora_h, own.gate_up, sweep.buffers.dnorm,
                         own.gate_up_u, own.gate_up});
  NormBackward(sweep, {own.residual_mid, own.rstd2, &block.post_norm});
}

void AttentionBackward(const Sweep& sweep, int64_t layer) {
  const model::ModelConfig& config = sweep.model.config;
  const Block& block = sweep.model.blocks[layer];
  const LayerBuffers& own = sweep.buffers.layers[layer];
  LinearBackward(sweep, {&block.o, own.att, own.lora_h, sweep.buffers.dres, sweep.buffers.datt,
                         own.o_u, sweep.buffers.dnorm});
  kernels::AttentionBackwardArgs attention;
  attention.spec = BlockAttentionSpec(sweep.model, block.window);
  attention.tokens = sweep.batch.tokens;
  attention.documents = {sweep.batch.documents, sweep.buffers.cu_seqlens, sweep.batch.max_length,
                         sweep.batch.dense};
  attention.qkv = own.qkv;
  attention.out = own.att;
  attention.lse = own.lse;
  attention.dout = sweep.buffers.datt;
  attention.dqkv = sweep.buffers.dqkv;
  attention.workspace = sweep.buffers.scratch;
  kernels::AttentionBackward(attention, sweep.stream);
  if (block.rotated) {
    kernels::RopeBackward(BlockRope(sweep, sweep.buffers.dqkv), sweep.stream);
  }
  if (!config.qk_norm) return;
  kernels::QkNormBackwardArgs norm;
  norm.spec = QkSpec(sweep.model);
  norm.tokens = sweep.batch.tokens;
  norm.dqkv = sweep.buffers.dqkv;
  norm.saved_qk = own.qk_raw;
  norm.rstd = own.qk_rstd;
  norm.q_weight = block.q_norm.value;
  norm.k_weight = block.k_norm.value;
  norm.dq_weight = block.q_norm.gradient;
  norm.dk_weight = block.k_norm.gradient;
  norm.workspace = sweep.buffers.scratch;
  kernels::QkNormBackward(norm, sweep.stream);
}

}  // namespace

void BlockBackward(const Sweep& sweep, const BlockBackwardArgs& args) {
  const Block& block = sweep.model.blocks[args.layer];
  const LayerBuffers& own = sweep.buffers.layers[args.layer];
  MlpBackward(sweep, args.layer);
  AttentionBackward(sweep, args.layer);
  LinearBackward(
      sweep, {&block.qkv, own.ln1, own.lora_h, sweep.buffers.dqkv,
              args.input_gradient ? sweep.buffers.dnorm : nullptr, own.qkv_u, sweep.buffers.dqkv});
  if (args.input_gradient) NormBackward(sweep, {own.residual_in, own.rstd1, &block.input_norm});
}

}  // namespace coxswain::engine
