#include "kernels/swiglu.h"
#include "worker/engine/block.h"
#include "worker/engine/linear.h"

namespace coxswain::engine {
namespace {

struct AddNormArgs {
  const float* x = nullptr;         // branch output
  const float* residual = nullptr;  // stream before it
  const Tensor* weight = nullptr;
  float* sum = nullptr;
  float* y = nullptr;
  float* rstd = nullptr;
};

void AddNorm(const Pass& pass, const AddNormArgs& args) {
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model.config);
  norm.rows = pass.batch.tokens;
  norm.x = args.x;
  norm.residual = args.residual;
  norm.weight = args.weight->value;
  norm.sum = args.sum;
  norm.y = args.y;
  norm.rstd = args.rstd;
  kernels::AddRmsNormForward(norm, pass.stream);
}

void InputNorm(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  kernels::RmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model.config);
  norm.rows = pass.batch.tokens;
  norm.x = own.residual_in;
  norm.weight = pass.model.blocks[layer].input_norm.value;
  norm.y = own.ln1;
  norm.rstd = own.rstd1;
  kernels::RmsNormForward(norm, pass.stream);
}

void Attention(const Pass& pass, int64_t layer) {
  const model::ModelConfig& config = pass.model.config;
  const Block& block = pass.model.blocks[layer];
  const LayerBuffers& own = pass.buffers.layers[layer];
  LinearForward(pass, {&block.qkv, own.ln1, own.lora_h, own.qkv});
  if (config.qk_norm) {
    kernels::QkNormForwardArgs norm;
    norm.spec = QkSpec(config);
    norm.tokens = pass.batch.tokens;
    norm.qkv = own.qkv;
    norm.q_weight = block.q_norm.value;
    norm.k_weight = block.k_norm.value;
    norm.saved_qk = own.qk_raw;
    norm.rstd = own.qk_rstd;
    kernels::QkNormForward(norm, pass.stream);
  }
  kernels::RopeForward(BlockRope(pass, own.qkv), pass.stream);
  kernels::AttentionForwardArgs attention;
  attention.spec = BlockAttentionSpec(config, block.window);
  attention.tokens = pass.batch.tokens;
  attention.documents = {pass.batch.documents, pass.buffers.cu_seqlens, pass.batch.max_length};
  attention.qkv = own.qkv;
  attention.out = own.att;
  attention.lse = own.lse;
  attention.workspace = pass.buffers.scratch;
  kernels::AttentionForward(attention, pass.stream);
  LinearForward(pass, {&block.o, own.att, own.lora_h, pass.buffers.branch});
}

// Up to the input of the down projection.
void GatedUp(const Pass& pass, int64_t layer) {
  const Block& block = pass.model.blocks[layer];
  const LayerBuffers& own = pass.buffers.layers[layer];
  AddNorm(pass, {pass.buffers.branch, own.residual_in, &block.post_norm, own.residual_mid, own.ln2,
                 own.rstd2});
  LinearForward(pass, {&block.gate_up, own.ln2, own.lora_h, own.gate_up});
  kernels::SwigluForwardArgs swiglu;
  swiglu.spec.intermediate = pass.model.config.intermediate_size;
  swiglu.rows = pass.batch.tokens;
  swiglu.gate_up = own.gate_up;
  swiglu.y = own.swiglu;
  kernels::SwigluForward(swiglu, pass.stream);
}

}  // namespace

void BlockForward(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  if (layer == 0) {
    InputNorm(pass, layer);
  } else {
    AddNorm(pass, {pass.buffers.branch, pass.buffers.layers[layer - 1].residual_mid,
                   &pass.model.blocks[layer].input_norm, own.residual_in, own.ln1, own.rstd1});
  }
  Attention(pass, layer);
  GatedUp(pass, layer);
  LinearForward(pass,
                {&pass.model.blocks[layer].down, own.swiglu, own.lora_h, pass.buffers.branch});
}

void BlockRecompute(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  InputNorm(pass, layer);
  Attention(pass, layer);
  GatedUp(pass, layer);
  if (pass.model.blocks[layer].down.adapters.members > 0) {
    // Also fills lora_h of the down projection.
    LinearForward(pass,
                  {&pass.model.blocks[layer].down, own.swiglu, own.lora_h, pass.buffers.branch});
  }
}

}  // namespace coxswain::engine
