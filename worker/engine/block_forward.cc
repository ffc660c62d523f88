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

void AddNorm(const Sweep& sweep, const AddNormArgs& args) {
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(sweep.model);
  norm.rows = sweep.batch.tokens;
  norm.x = args.x;
  norm.residual = args.residual;
  norm.weight = args.weight->value;
  norm.sum = args.sum;
  norm.y = args.y;
  norm.rstd = args.rstd;
  kernels::AddRmsNormForward(norm, sweep.stream);
}

struct NormArgs {
  const void* x = nullptr;
  const Tensor* weight = nullptr;
  void* y = nullptr;
  float* rstd = nullptr;
};

void Norm(const Sweep& sweep, const NormArgs& args) {
  kernels::RmsNormForwardArgs norm;
  norm.spec = NormSpec(sweep.model);
  norm.rows = sweep.batch.tokens;
  norm.x = args.x;
  norm.weight = args.weight->value;
  norm.y = args.y;
  norm.rstd = args.rstd;
  kernels::RmsNormForward(norm, sweep.stream);
}

NormArgs InputNorm(const Sweep& sweep, int64_t layer) {
  const LayerBuffers& own = sweep.buffers.layers[layer];
  return {own.residual_in, &sweep.model.blocks[layer].input_norm, own.ln1, own.rstd1};
}

void Attention(const Sweep& sweep, int64_t layer) {
  const model::ModelConfig& config = sweep.model.config;
  const Block& block = sweep.model.blocks[layer];
  const LayerBuffers& own = sweep.buffers.layers[layer];
  LinearForward(sweep, {&block.qkv, own.ln1, own.lora_h, own.qkv, own.qkv_u});
  if (config.qk_norm) {
    kernels::QkNormForwardArgs norm;
    norm.spec = QkSpec(sweep.model);
    norm.tokens = sweep.batch.tokens;
    norm.qkv = own.qkv;
    norm.q_weight = block.q_norm.value;
    norm.k_weight = block.k_norm.value;
    norm.saved_qk = own.qk_raw;
    norm.rstd = own.qk_rstd;
    kernels::QkNormForward(norm, sweep.stream);
  }
  if (block.rotated) kernels::RopeForward(BlockRope(sweep, own.qkv), sweep.stream);
  kernels::AttentionForwardArgs attention;
  attention.spec = BlockAttentionSpec(sweep.model, block.window);
  attention.tokens = sweep.batch.tokens;
  attention.documents = {sweep.batch.documents, sweep.buffers.cu_seqlens, sweep.batch.max_length,
                         sweep.batch.dense};
  attention.qkv = own.qkv;
  attention.out = own.att;
  attention.lse = own.lse;
  attention.workspace = sweep.buffers.scratch;
  kernels::AttentionForward(attention, sweep.stream);
  LinearForward(sweep, {&block.o, own.att, own.lora_h, sweep.buffers.branch, own.o_u});
}

void Geglu(const Sweep& sweep, const LayerBuffers& own) {
  kernels::GegluForwardArgs geglu;
  geglu.spec = GateSpec(sweep.model);
  geglu.rows = sweep.batch.tokens;
  geglu.gate_up = own.gate_up;
  geglu.y = own.swiglu;
  kernels::GegluForward(geglu, sweep.stream);
}

void GatedProduct(const Sweep& sweep, int64_t layer) {
  const LayerBuffers& own = sweep.buffers.layers[layer];
  if (!UsesSwiglu(sweep.model)) return Geglu(sweep, own);
  kernels::SwigluForwardArgs swiglu;
  swiglu.spec.dtype = sweep.model.dtype;
  swiglu.spec.intermediate = sweep.model.config.intermediate_size;
  swiglu.rows = sweep.batch.tokens;
  swiglu.gate_up = own.gate_up;
  swiglu.y = own.swiglu;
  kernels::SwigluForward(swiglu, sweep.stream);
}

// gate_up, and where wanted their product.
void GatedUp(const Sweep& sweep, int64_t layer, bool wants_product) {
  const Linear& linear = sweep.model.blocks[layer].gate_up;
  const LayerBuffers& own = sweep.buffers.layers[layer];
  if (linear.adapters.members > 0 || linear.bias.value != nullptr || !UsesSwiglu(sweep.model)) {
    LinearForward(sweep, {&linear, own.ln2, own.lora_h, own.gate_up, own.gate_up_u});
    if (wants_product) GatedProduct(sweep, layer);
    return;
  }
  kernels::GatedLinearForwardArgs gated;
  gated.spec = GatedSpec(sweep.model);
  gated.rows = sweep.batch.tokens;
  gated.x = own.ln2;
  gated.weight = linear.weight.value;
  gated.gate_up = own.gate_up;
  gated.y = wants_product ? own.swiglu : nullptr;
  gated.workspace = sweep.buffers.scratch;
  kernels::GatedLinearForward(gated, sweep.stream);
}

void Down(const Sweep& sweep, int64_t layer) {
  const LayerBuffers& own = sweep.buffers.layers[layer];
  LinearForward(sweep, {&sweep.model.blocks[layer].down, own.swiglu, own.lora_h,
                        sweep.buffers.branch, own.down_u});
}

// From ln1 to the input of the down projection.
void AttentionAndGatedUp(const Sweep& sweep, int64_t layer) {
  const LayerBuffers& own = sweep.buffers.layers[layer];
  Attention(sweep, layer);
  AddNorm(sweep, {sweep.buffers.branch, own.residual_in, &sweep.model.blocks[layer].post_norm,
                  own.residual_mid, own.ln2, own.rstd2});
  GatedUp(sweep, layer, /*wants_product=*/true);
}

// Adds the branch of the block before to the stream.
void AddInput(const Sweep& sweep, int64_t layer) {
  const LayerBuffers& own = sweep.buffers.layers[layer];
  AddNorm(sweep, {sweep.buffers.branch, sweep.buffers.layers[layer - 1].residual_mid,
                  &sweep.model.blocks[layer].input_norm, own.residual_in, own.ln1, own.rstd1});
}

// The blocks of one segment from the residual_in of its first.
void RecomputeSegment(const Sweep& sweep, Segment segment) {
  for (int64_t layer = segment.begin; layer < segment.end; ++layer) {
    sweep.units->Enter(UnitOf(layer));
    if (sweep.idle()) continue;
    if (layer == segment.begin) {
      Norm(sweep, InputNorm(sweep, layer));
    } else {
      AddInput(sweep, layer);
    }
    AttentionAndGatedUp(sweep, layer);
    // The last block's output is not wanted, but lora_h and down_u of its down projection are.
    const bool adapted = sweep.model.blocks[layer].down.adapters.members > 0;
    if (layer + 1 < segment.end || adapted) Down(sweep, layer);
  }
}

}  // namespace

void BlockForward(const Sweep& sweep, int64_t layer) {
  if (layer == 0) {
    Norm(sweep, InputNorm(sweep, layer));
  } else {
    AddInput(sweep, layer);
  }
  AttentionAndGatedUp(sweep, layer);
  Down(sweep, layer);
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

void BlockRecompute(const Sweep& sweep, int64_t layer) {
  const Model& model = sweep.model;
  if (model.recompute == Recompute::kBlock) {
    RecomputeSegment(sweep, RecomputedSegment(model, layer));
    return;
  }
  if (model.recompute == Recompute::kNone || layer == model.config.num_layers - 1) return;
  sweep.units->Enter(UnitOf(layer));
  if (sweep.idle()) return;
  Norm(sweep, InputNorm(sweep, layer));
  const LayerBuffers& own = sweep.buffers.layers[layer];
  Norm(sweep, {own.residual_mid, &model.blocks[layer].post_norm, own.ln2, own.rstd2});
  const bool wants_product = !SwigluComesBack(model, layer);
  if (model.recompute == Recompute::kFfn) {
    GatedUp(sweep, layer, wants_product);
  } else if (wants_product) {
    GatedProduct(sweep, layer);
  }
}

bool SwigluComesBack(const Model& model, int64_t layer) {
  const bool shared =
      model.recompute == Recompute::kNormSwiglu || model.recompute == Recompute::kFfn;
  // Adapters read it together with the gradient that comes before it.
  return shared && UsesSwiglu(model) && layer < model.config.num_layers - 1 &&
         model.blocks[layer].down.adapters.members == 0;
}

}  // namespace coxswain::engine
