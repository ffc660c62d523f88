#include "worker/engine/micro_step.h"

#include "kernels/embedding.h"
#include "worker/engine/block.h"

namespace coxswain::engine {
namespace {

bool Trained(const Linear& linear) {
  return linear.weight.gradient != nullptr || linear.bias.gradient != nullptr ||
         linear.adapters.a.gradient != nullptr;
}

// Anything behind the block's input norm.
bool TrainedInside(const Block& block) {
  return Trained(block.qkv) || Trained(block.o) || Trained(block.gate_up) || Trained(block.down) ||
         block.post_norm.gradient != nullptr || block.q_norm.gradient != nullptr;
}

// Where the backward may stop.
struct Lowest {
  int64_t layer = 0;           // below it nothing is trained; num_layers: no block at all
  bool input_gradient = true;  // of that layer
};

Lowest LowestTrained(const Model& model) {
  const int64_t layers = static_cast<int64_t>(model.blocks.size());
  if (model.embedding.gradient != nullptr) return {0, true};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Block& block = model.blocks[layer];
    if (block.input_norm.gradient != nullptr) return {layer, true};
    if (TrainedInside(block)) return {layer, false};
  }
  return {layers, false};
}

void FinalNormBackward(const Pass& pass) {
  kernels::RmsNormBackwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.dy = pass.buffers.dnorm;
  norm.x = pass.buffers.final_residual;
  norm.weight = pass.model.final_norm.value;
  norm.rstd = pass.buffers.final_rstd;
  norm.accumulate_dx = false;
  norm.dx = pass.buffers.dres;
  norm.dweight = pass.model.final_norm.gradient;
  norm.workspace = pass.buffers.scratch;
  kernels::RmsNormBackward(norm, pass.stream);
}

}  // namespace

kernels::EmbeddingSpec TokenEmbeddingSpec(const Model& model) {
  kernels::EmbeddingSpec spec;
  spec.dtype = model.dtype;
  spec.grad_dtype = model.embedding.gradient_dtype;
  spec.vocab = model.config.vocab_size;
  spec.hidden = model.config.hidden_size;
  return spec;
}

void ForwardToFinalNorm(const Pass& pass) {
  const Buffers& buffers = pass.buffers;
  kernels::EmbeddingForwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(pass.model);
  embedding.tokens = pass.batch.tokens;
  embedding.ids = buffers.tokens;
  embedding.weight = pass.model.embedding.value;
  embedding.out = buffers.layers.front().residual_in;
  kernels::EmbeddingForward(embedding, pass.stream);
  for (int64_t layer = 0; layer < pass.model.config.num_layers; ++layer) BlockForward(pass, layer);
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.x = buffers.branch;
  norm.residual = buffers.layers.back().residual_mid;
  norm.weight = pass.model.final_norm.value;
  norm.sum = buffers.final_residual;
  norm.y = buffers.final_norm;
  norm.rstd = buffers.final_rstd;
  kernels::AddRmsNormForward(norm, pass.stream);
}

void BackwardFromFinalNorm(const Pass& pass) {
  const Lowest lowest = LowestTrained(pass.model);
  FinalNormBackward(pass);
  const int64_t last = pass.model.config.num_layers - 1;
  for (int64_t layer = last; layer >= lowest.layer; --layer) {
    BlockRecompute(pass, layer);
    BlockBackward(pass, {layer, layer > lowest.layer || lowest.input_gradient});
  }
  if (pass.model.embedding.gradient == nullptr) return;
  kernels::EmbeddingBackwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(pass.model);
  embedding.tokens = pass.batch.tokens;
  embedding.ids = pass.buffers.tokens;
  embedding.dout = pass.buffers.dres;
  embedding.dweight = pass.model.embedding.gradient;
  embedding.workspace = pass.buffers.scratch;
  kernels::EmbeddingBackward(embedding, pass.stream);
}

}  // namespace coxswain::engine
