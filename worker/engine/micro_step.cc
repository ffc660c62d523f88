#include "worker/engine/micro_step.h"

#include <numeric>

#include "common/dtype.h"
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

void FinalNormBackward(const Sweep& sweep) {
  kernels::RmsNormBackwardArgs norm;
  norm.spec = NormSpec(sweep.model);
  norm.rows = sweep.batch.tokens;
  norm.dy = sweep.buffers.dnorm;
  norm.x = sweep.buffers.final_residual;
  norm.weight = sweep.model.final_norm.value;
  norm.rstd = sweep.buffers.final_rstd;
  norm.accumulate_dx = false;
  norm.dx = sweep.buffers.dres;
  norm.dweight = sweep.model.final_norm.gradient;
  norm.workspace = sweep.buffers.scratch;
  kernels::RmsNormBackward(norm, sweep.stream);
}

void Embed(const Sweep& sweep) {
  kernels::EmbeddingForwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(sweep.model);
  embedding.tokens = sweep.batch.tokens;
  embedding.ids = sweep.buffers.tokens;
  embedding.weight = sweep.model.embedding.value;
  embedding.out = sweep.buffers.layers.front().residual_in;
  kernels::EmbeddingForward(embedding, sweep.stream);
}

// Of this rank's lookups the whole matrix, of all ranks' the range that this one owns.
void EmbeddingBackward(const Sweep& sweep, const EmbeddingRows& lookups) {
  kernels::EmbeddingBackwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(sweep.model);
  embedding.tokens = lookups.tokens;
  embedding.ids = lookups.ids;
  embedding.dout = lookups.rows;
  embedding.dweight = sweep.model.embedding.gradient;
  embedding.begin = lookups.owned.begin;
  embedding.end = lookups.owned.end;
  embedding.workspace = sweep.buffers.scratch;
  kernels::EmbeddingBackward(embedding, sweep.stream);
}

EmbeddingRows OwnRows(const Sweep& sweep) {
  return {.tokens = sweep.batch.tokens,
          .ids = sweep.buffers.tokens,
          .rows = sweep.buffers.dres,
          .owned = {0, sweep.model.config.vocab_size * sweep.model.config.hidden_size}};
}

// The last block's branch is added here.
void FinalNorm(const Sweep& sweep) {
  kernels::AddRmsNormForwardArgs norm;
  norm.spec = NormSpec(sweep.model);
  norm.rows = sweep.batch.tokens;
  norm.x = sweep.buffers.branch;
  norm.residual = sweep.buffers.layers.back().residual_mid;
  norm.weight = sweep.model.final_norm.value;
  norm.sum = sweep.buffers.final_residual;
  norm.y = sweep.buffers.final_norm;
  norm.rstd = sweep.buffers.final_rstd;
  kernels::AddRmsNormForward(norm, sweep.stream);
}

}  // namespace

kernels::EmbeddingSpec TokenEmbeddingSpec(const Model& model) {
  kernels::EmbeddingSpec spec;
  spec.dtype = model.dtype;
  spec.grad_dtype = model.embedding.gradient_dtype;
  spec.vocab = model.config.vocab_size;
  spec.hidden = model.config.hidden_size;
  spec.scale = static_cast<float>(model.config.embedding_scale);
  if (model.config.embedding_scale_rounded && model.dtype == kernels::DType::kBFloat16) {
    spec.scale = Bf16ToFloat(FloatToBf16(spec.scale));
  }
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

void ForwardToFinalNorm(const Sweep& sweep) {
  sweep.units->Enter(plan::kEmbeddingUnit);
  if (!sweep.idle()) Embed(sweep);
  for (int64_t layer = 0; layer < sweep.model.config.num_layers; ++layer) {
    sweep.units->Enter(UnitOf(layer));
    if (sweep.idle()) continue;
    if (sweep.first) UpdateDoraFactors(sweep, layer);
    BlockForward(sweep, layer);
  }
  sweep.units->Enter(HeadUnit(sweep.model));
  if (!sweep.idle()) FinalNorm(sweep);
}

void BackwardFromFinalNorm(const Sweep& sweep) {
  const Lowest lowest = LowestTrained(sweep.model);
  if (!sweep.idle()) FinalNormBackward(sweep);
  sweep.units->ReduceGradients(HeadUnit(sweep.model));
  const bool rows = sweep.units->ExchangesRows();
  if (rows) sweep.units->BeginRows(sweep.batch.tokens);
  for (int64_t layer = sweep.model.config.num_layers - 1; layer >= lowest.layer; --layer) {
    BlockRecompute(sweep, layer);
    sweep.units->Enter(UnitOf(layer));
    sweep.units->BeginGradients(UnitOf(layer), sweep.idle());
    if (!sweep.idle()) {
      BlockBackward(sweep, {layer, layer > lowest.layer || lowest.input_gradient});
    }
    sweep.units->ReduceGradients(UnitOf(layer));
  }
  if (rows) return EmbeddingBackward(sweep, sweep.units->TakeRows());
  if (!sweep.idle() && sweep.model.embedding.gradient != nullptr) {
    EmbeddingBackward(sweep, OwnRows(sweep));
  }
  sweep.units->ReduceGradients(plan::kEmbeddingUnit);
}

}  // namespace coxswain::engine
