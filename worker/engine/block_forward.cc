#include <algorithm>

#include "kernels/gated_linear.h"
#include "kernels/swiglu.h"
#include "worker/engine/block.h"
#include "worker/engine/linear.h"

namespace coxswain::engine {
namespace {

struct AddNormArgs {
  const void* x = nullptr;         // branch output
  const void* residual = nullptr;  // stream before it
  const Tensor* weight = nullptr;
  void* sum = nullptr;
  void* y = nullptr;
  float* rstd = nullptr;
};

void AddNorm(const Pass& pass, const AddNormArgs& args) {
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.x = args.x;
  norm.residual = args.residual;
  norm.weight = args.weight->value;
  norm.sum = args.sum;
  norm.y = args.y;
  norm.rstd = args.rstd;
  kernels::AddRmsNormForward(norm, pass.stream);
}

struct NormArgs {
  const void* x = nullptr;
  const Tensor* weight = nullptr;
  void* y = nullptr;
  float* rstd = nullptr;
};

void Norm(const Pass& pass, const NormArgs& args) {
  kernels::RmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.x = args.x;
  norm.weight = args.weight->value;
  norm.y = args.y;
  norm.rstd = args.rstd;
  kernels::RmsNormForward(norm, pass.stream);
}

NormArgs InputNorm(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  return {own.residual_in, &pass.model.blocks[layer].input_norm, own.ln1, own.rstd1};
}

void Attention(const Pass& pass, int64_t layer) {
  const model::ModelConfig& config = pass.model.config;
  const Block& block = pass.model.blocks[layer];
  const LayerBuffers& own = pass.buffers.layers[layer];
  LinearForward(pass, {&block.qkv, own.ln1, own.lora_h, own.qkv, own.qkv_u});
  if (config.qk_norm) {
    kernels::QkNormForwardArgs norm;
    norm.spec = QkSpec(pass.model);
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
  attention.spec = BlockAttentionSpec(pass.model, block.window);
  attention.tokens = pass.batch.tokens;
  attention.documents = {pass.batch.documents, pass.buffers.cu_seqlens, pass.batch.max_length,
                         pass.batch.dense};
  attention.qkv = own.qkv;
  attention.out = own.att;
  attention.lse = own.lse;
  attention.workspace = pass.buffers.scratch;
  kernels::AttentionForward(attention, pass.stream);
  LinearForward(pass, {&block.o, own.att, own.lora_h, pass.buffers.branch, own.o_u});
}

void Swiglu(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  kernels::SwigluForwardArgs swiglu;
  swiglu.spec.dtype = pass.model.dtype;
  swiglu.spec.intermediate = pass.model.config.intermediate_size;
  swiglu.rows = pass.batch.tokens;
  swiglu.gate_up = own.gate_up;
  swiglu.y = own.swiglu;
  kernels::SwigluForward(swiglu, pass.stream);
}

// gate_up, and where wanted swiglu.
void GatedUp(const Pass& pass, int64_t layer, bool wants_swiglu) {
  const Linear& linear = pass.model.blocks[layer].gate_up;
  const LayerBuffers& own = pass.buffers.layers[layer];
  if (linear.adapters.members > 0 || linear.bias.value != nullptr) {
    LinearForward(pass, {&linear, own.ln2, own.lora_h, own.gate_up, own.gate_up_u});
    if (wants_swiglu) Swiglu(pass, layer);
    return;
  }
  kernels::GatedLinearForwardArgs gated;
  gated.spec = GatedSpec(pass.model);
  gated.rows = pass.batch.tokens;
  gated.x = own.ln2;
  gated.weight = linear.weight.value;
  gated.gate_up = own.gate_up;
  gated.y = wants_swiglu ? own.swiglu : nullptr;
  gated.workspace = pass.buffers.scratch;
  kernels::GatedLinearForward(gated, pass.stream);
}

void Down(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  LinearForward(pass, {&pass.model.blocks[layer].down, own.swiglu, own.lora_h, pass.buffers.branch,
                       own.down_u});
}

// From ln1 to the input of the down projection.
void AttentionAndGatedUp(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  Attention(pass, layer);
  AddNorm(pass, {pass.buffers.branch, own.residual_in, &pass.model.blocks[layer].post_norm,
                 own.residual_mid, own.ln2, own.rstd2});
  GatedUp(pass, layer, /*wants_swiglu=*/true);
}

// Adds the branch of the block before to the stream.
void AddInput(const Pass& pass, int64_t layer) {
  const LayerBuffers& own = pass.buffers.layers[layer];
  AddNorm(pass, {pass.buffers.branch, pass.buffers.layers[layer - 1].residual_mid,
                 &pass.model.blocks[layer].input_norm, own.residual_in, own.ln1, own.rstd1});
}

// The blocks of one segment from the residual_in of its first.
void RecomputeSegment(const Pass& pass, Segment segment) {
  for (int64_t layer = segment.begin; layer < segment.end; ++layer) {
    pass.units->Enter(UnitOf(layer));
    if (pass.idle()) continue;
    if (layer == segment.begin) {
      Norm(pass, InputNorm(pass, layer));
    } else {
      AddInput(pass, layer);
    }
    AttentionAndGatedUp(pass, layer);
    // The last block's output is not wanted, but lora_h and down_u of its down projection are.
    const bool adapted = pass.model.blocks[layer].down.adapters.members > 0;
    if (layer + 1 < segment.end || adapted) Down(pass, layer);
  }
}

}  // namespace

void BlockForward(const Pass& pass, int64_t layer) {
  if (layer == 0) {
    Norm(pass, InputNorm(pass, layer));
  } else {
    AddInput(pass, layer);
  }
  AttentionAndGatedUp(pass, layer);
  Down(pass, layer);
}

Segment RecomputedSegment(const Model& model, int64_t layer) {
  if (model.recompute != Recompute::kBlock) return {};
  const int64_t layers = model.config.num_layers;
  const int64_t begin = layer / model.recompute_every * model.recompute_every;
  const int64_t end = std::min(begin + model.recompute_every, layers);
  // The last segment is still there, and a segment is filled before its last block's backward.
  if (end == layers || layer != end - 1) return {};
  return {begin, end};
}

void BlockRecompute(const Pass& pass, int64_t layer) {
  const Model& model = pass.model;
  if (model.recompute == Recompute::kBlock) {
    RecomputeSegment(pass, RecomputedSegment(model, layer));
    return;
  }
  if (model.recompute == Recompute::kNone || layer == model.config.num_layers - 1) return;
  pass.units->Enter(UnitOf(layer));
  if (pass.idle()) return;
  Norm(pass, InputNorm(pass, layer));
  const LayerBuffers& own = pass.buffers.layers[layer];
  Norm(pass, {own.residual_mid, &model.blocks[layer].post_norm, own.ln2, own.rstd2});
  const bool wants_swiglu = !SwigluComesBack(model, layer);
  if (model.recompute == Recompute::kFfn) {
    GatedUp(pass, layer, wants_swiglu);
  } else if (wants_swiglu) {
    Swiglu(pass, layer);
  }
}

bool SwigluComesBack(const Model& model, int64_t layer) {
  const bool shared =
      model.recompute == Recompute::kNormSwiglu || model.recompute == Recompute::kFfn;
  // Adapters read it together with the gradient that comes before it.
  return shared && layer < model.config.num_layers - 1 &&
         model.blocks[layer].down.adapters.members == 0;
}

}  // namespace coxswain::engine
