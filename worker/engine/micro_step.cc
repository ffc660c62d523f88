#include "worker/engine/micro_step.h"

#include <numeric>

#include "common/dtype.h"
#include "kernels/embedding.h"
#include "worker/engine/block.h"
#include "worker/engine/dora.h"
#include "worker/engine/run_ops.h"

namespace coxswain::engine {
namespace {

int32_t HeadUnit(const Model& model) { return static_cast<int32_t>(model.blocks.size()) + 1; }

void Embed(const Sweep& sweep) {
  kernels::EmbeddingForwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(sweep.model);
  embedding.tokens = sweep.batch.tokens;
  embedding.ids = sweep.buffers.tokens;
  embedding.weight = sweep.model.embedding.value;
  embedding.out = sweep.ops.embedded;
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

}  // namespace

kernels::EmbeddingSpec TokenEmbeddingSpec(const Model& model) {
  kernels::EmbeddingSpec spec;
  spec.dtype = model.compute_dtype;
  spec.grad_dtype = model.embedding.gradient_dtype;
  spec.vocab = model.config.vocab_size;
  spec.hidden = model.config.hidden_size;
  spec.scale = static_cast<float>(model.config.embedding_scale);
  if (model.config.embedding_scale_rounded && model.compute_dtype == kernels::DType::kBFloat16) {
    spec.scale = Bf16ToFloat(FloatToBf16(spec.scale));
  }
  return spec;
}

std::vector<int32_t> ForwardVisits(const Model& model) {
  std::vector<int32_t> units(model.blocks.size() + 2);
  std::iota(units.begin(), units.end(), 0);
  return units;
}

std::vector<int32_t> BackwardVisits(const Model& model, const BoundModel& ops, bool train) {
  std::vector<int32_t> units = {HeadUnit(model)};
  if (!train) return units;
  const auto visit = [&units](int64_t layer) {
    if (units.back() != UnitOf(layer)) units.push_back(UnitOf(layer));
  };
  for (int64_t layer = model.config.num_layers - 1; layer >= ops.lowest; --layer) {
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
  if (sweep.idle()) return;
  for (const BoundOp& op : sweep.ops.tail) RunForward(sweep, op);
}

void BackwardFromFinalNorm(const Sweep& sweep) {
  if (!sweep.idle()) NormBackward(sweep, sweep.ops.final_norm);
  sweep.units->ReduceGradients(HeadUnit(sweep.model));
  const bool rows = sweep.units->ExchangesRows();
  if (rows) sweep.units->BeginRows(sweep.batch.tokens);
  for (int64_t layer = sweep.model.config.num_layers - 1; layer >= sweep.ops.lowest; --layer) {
    BlockRecompute(sweep, layer);
    sweep.units->Enter(UnitOf(layer));
    sweep.units->BeginGradients(UnitOf(layer), sweep.idle());
    if (!sweep.idle()) BlockBackward(sweep, layer);
    sweep.units->ReduceGradients(UnitOf(layer));
  }
  if (rows) return EmbeddingBackward(sweep, sweep.units->TakeRows());
  if (!sweep.idle() && sweep.model.embedding.gradient != nullptr) {
    EmbeddingBackward(sweep, OwnRows(sweep));
  }
  sweep.units->ReduceGradients(plan::kEmbeddingUnit);
}

}  // namespace coxswain::engine
