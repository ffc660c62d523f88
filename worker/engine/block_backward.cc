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
void NormBackward(const Pass& pass, const NormBackwardArgs& args) {
  kernels::RmsNormBackwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.dy = pass.buffers.dnorm;
  norm.x = args.x;
  norm.weight = args.weight->value;
  norm.rstd = args.rstd;
  norm.dx = pass.buffers.dres;
  norm.dweight = args.weight->gradient;
  norm.workspace = pass.buffers.scratch;
  kernels::RmsNormBackward(norm, pass.stream);
}

void SwigluGradient(const Pass& pass, const LayerBuffers& own) {
  kernels::SwigluBackwardArgs swiglu;
  swiglu.spec.dtype = pass.model.dtype;
  swiglu.spec.intermediate = pass.model.config.intermediate_size;
  swiglu.rows = pass.batch.tokens;
  swiglu.dy = pass.buffers.dswiglu;
  swiglu.gate_up = own.gate_up;
  kernels::SwigluBackward(swiglu, pass.stream);
}

// From dres to the gradient of gate_up in its place; where wanted swiglu comes back in dswiglu.
void DownInputGradient(const Pass& pass, const Linear& linear, const LayerBuffers& own,
                       bool wants_swiglu) {
  kernels::GatedLinearBackwardArgs gated;
  gated.spec = GatedSpec(pass.model);
  gated.rows = pass.batch.tokens;
  gated.dout = pass.buffers.dres;
  gated.weight = linear.weight.value;
  gated.gate_up = own.gate_up;
  gated.y = pass.buffers.dswiglu;
  gated.wants_y = wants_swiglu;
  gated.workspace = pass.buffers.scratch;
  kernels::GatedLinearBackward(gated, pass.stream);
}

void MlpBackward(const Pass& pass, int64_t layer) {
  const Block& block = pass.model.blocks[layer];
  const LayerBuffers& own = pass.buffers.layers[layer];
  LinearBackwardArgs down{&block.down,          own.swiglu, own.lora_h,        pass.buffers.dres,
                          pass.buffers.dswiglu, own.down_u, pass.buffers.dnorm};
  if (block.down.adapters.members > 0) {
    LinearBackward(pass, down);
    SwigluGradient(pass, own);
  } else if (SwigluComesBack(pass.model, layer)) {
    DownInputGradient(pass, block.down, own, /*wants_swiglu=*/true);
    down.x = pass.buffers.dswiglu;
    LinearParameterGradients(pass, down);
  } else {
    LinearParameterGradients(pass, down);
    DownInputGradient(pass, block.down, own, /*wants_swiglu=*/false);
  }
  LinearBackward(pass, {&block.gate_up, own.ln2, own.lora_h, own.gate_up, pass.buffers.dnorm,
                        own.gate_up_u, own.gate_up});
  NormBackward(pass, {own.residual_mid, own.rstd2, &block.post_norm});
}

void AttentionBackward(const Pass& pass, int64_t layer) {
  const model::ModelConfig& config = pass.model.config;
  const Block& block = pass.model.blocks[layer];
  const LayerBuffers& own = pass.buffers.layers[layer];
  LinearBackward(pass, {&block.o, own.att, own.lora_h, pass.buffers.dres, pass.buffers.datt,
                        own.o_u, pass.buffers.dnorm});
  kernels::AttentionBackwardArgs attention;
  attention.spec = BlockAttentionSpec(pass.model, block.window);
  attention.tokens = pass.batch.tokens;
  attention.documents = {pass.batch.documents, pass.buffers.cu_seqlens, pass.batch.max_length,
                         pass.batch.dense};
  attention.qkv = own.qkv;
  attention.out = own.att;
  attention.lse = own.lse;
  attention.dout = pass.buffers.datt;
  attention.dqkv = pass.buffers.dqkv;
  attention.workspace = pass.buffers.scratch;
  kernels::AttentionBackward(attention, pass.stream);
  kernels::RopeBackward(BlockRope(pass, pass.buffers.dqkv), pass.stream);
  if (!config.qk_norm) return;
  kernels::QkNormBackwardArgs norm;
  norm.spec = QkSpec(pass.model);
  norm.tokens = pass.batch.tokens;
  norm.dqkv = pass.buffers.dqkv;
  norm.saved_qk = own.qk_raw;
  norm.rstd = own.qk_rstd;
  norm.q_weight = block.q_norm.value;
  norm.k_weight = block.k_norm.value;
  norm.dq_weight = block.q_norm.gradient;
  norm.dk_weight = block.k_norm.gradient;
  norm.workspace = pass.buffers.scratch;
  kernels::QkNormBackward(norm, pass.stream);
}

}  // namespace

void BlockBackward(const Pass& pass, const BlockBackwardArgs& args) {
  const Block& block = pass.model.blocks[args.layer];
  const LayerBuffers& own = pass.buffers.layers[args.layer];
  MlpBackward(pass, args.layer);
  AttentionBackward(pass, args.layer);
  LinearBackward(
      pass, {&block.qkv, own.ln1, own.lora_h, pass.buffers.dqkv,
             args.input_gradient ? pass.buffers.dnorm : nullptr, own.qkv_u, pass.buffers.dqkv});
  if (args.input_gradient) NormBackward(pass, {own.residual_in, own.rstd1, &block.input_norm});
}

}  // namespace coxswain::engine
