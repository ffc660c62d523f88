#include "worker/engine/micro_step.h"

#include <numeric>

#include "kernels/embedding.h"
#include "worker/engine/block.h"
#include "worker/engine/dora.h"

namespace coxswain::engine {
namespace {

int32_t HeadUnit(const Model& model) { return static_cast<int32_t>(model.blocks.size()) + 1; }

bool Trained(const Linear& linear) {
  return linear.weight.gradient != nullptr || linear.bias.gradient != nullptr ||
         linear.adapters.a.gradient != nullptr;
}

// Anything behind the block's input norm.
bool TrainedBehindInputNorm(const Block& block) {
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
    if (TrainedBehindInputNorm(block)) return {layer, false};
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

void Embed(const Pass& pass) {
  kernels::EmbeddingForwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(pass.model);
  embedding.tokens = pass.batch.tokens;
  embedding.ids = pass.buffers.tokens;
  embedding.weight = pass.model.embedding.value;
  embedding.out = pass.buffers.layers.front().residual_in;
  kernels::EmbeddingForward(embedding, pass.stream);
}

// Of this rank's lookups the whole matrix, of all ranks' the range that this one owns.
void EmbeddingBackward(const Pass& pass, const EmbeddingRows& lookups) {
  kernels::EmbeddingBackwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(pass.model);
  embedding.tokens = lookups.tokens;
  embedding.ids = lookups.ids;
  embedding.dout = lookups.rows;
  embedding.dweight = pass.model.embedding.gradient;
  embedding.begin = lookups.owned.begin;
  embedding.end = lookups.owned.end;
  embedding.workspace = pass.buffers.scratch;
  kernels::EmbeddingBackward(embedding, pass.stream);
}

EmbeddingRows OwnRows(const Pass& pass) {
  return {.tokens = pass.batch.tokens,
          .ids = pass.buffers.tokens,
          .rows = pass.buffers.dres,
          .owned = {0, pass.model.config.vocab_size * pass.model.config.hidden_size}};
}

// The last block's branch is added here.
void FinalNorm(const Pass& pass) {
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(pass.model);
  norm.rows = pass.batch.tokens;
  norm.x = pass.buffers.branch;
  norm.residual = pass.buffers.layers.back().residual_mid;
  norm.weight = pass.model.final_norm.value;
  norm.sum = pass.buffers.final_residual;
  norm.y = pass.buffers.final_norm;
  norm.rstd = pass.buffers.final_rstd;
  kernels::AddRmsNormForward(norm, pass.stream);
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

std::vector<int32_t> ForwardVisits(const Model& model) {
  std::vector<int32_t> units(model.blocks.size() + 2);
  std::iota(units.begin(), units.end(), 0);
  return units;
}

std::vector<int32_t> BackwardVisits(const Model& model, bool train) {
  std::vector<int32_t> units = {HeadUnit(model)};
  if (!train) return units;
  const auto visit = [&units](int64_t layer) {
    if (units.back() != UnitOf(layer)) units.push_back(UnitOf(layer));
  };
  const int64_t lowest = LowestTrained(model).layer;
  for (int64_t layer = model.config.num_layers - 1; layer >= lowest; --layer) {
    const Segment again = RecomputedSegment(model, layer);
    for (int64_t i = again.begin; i < again.end; ++i) visit(i);
    visit(layer);
  }
  return units;
}

void ForwardToFinalNorm(const Pass& pass) {
  pass.units->Enter(plan::kEmbeddingUnit);
  if (!pass.idle()) Embed(pass);
  for (int64_t layer = 0; layer < pass.model.config.num_layers; ++layer) {
    pass.units->Enter(UnitOf(layer));
    if (pass.idle()) continue;
    if (pass.first) UpdateDoraFactors(pass, layer);
    BlockForward(pass, layer);
  }
  pass.units->Enter(HeadUnit(pass.model));
  if (!pass.idle()) FinalNorm(pass);
}

void BackwardFromFinalNorm(const Pass& pass) {
  const Lowest lowest = LowestTrained(pass.model);
  if (!pass.idle()) FinalNormBackward(pass);
  pass.units->ReduceGradients(HeadUnit(pass.model));
  const bool rows = pass.units->ExchangesRows();
  if (rows) pass.units->BeginRows(pass.batch.tokens);
  for (int64_t layer = pass.model.config.num_layers - 1; layer >= lowest.layer; --layer) {
    BlockRecompute(pass, layer);
    pass.units->Enter(UnitOf(layer));
    pass.units->BeginGradients(UnitOf(layer), pass.idle());
    if (!pass.idle()) {
      BlockBackward(pass, {layer, layer > lowest.layer || lowest.input_gradient});
    }
    pass.units->ReduceGradients(UnitOf(layer));
  }
  if (rows) return EmbeddingBackward(pass, pass.units->TakeRows());
  if (!pass.idle() && pass.model.embedding.gradient != nullptr) {
    EmbeddingBackward(pass, OwnRows(pass));
  }
  pass.units->ReduceGradients(plan::kEmbeddingUnit);
}

}  // namespace coxswain::engine
