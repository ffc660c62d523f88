#include "worker/engine/ops/micro_step.h"

#include <numeric>

#include "common/element_type.h"
#include "kernels/tensors/rows.h"
#include "worker/engine/ops/block.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/dora.h"
#include "worker/engine/ops/gradient_sum.h"
#include "worker/engine/ops/kept_codes.h"
#include "worker/engine/ops/run_ops.h"

namespace coxswain::engine {
namespace {

int32_t HeadUnit(const Model& model) { return static_cast<int32_t>(model.blocks.size()) + 1; }

// B of the embedding's adapter: [H, r] as a linear of A's rows.
Dense AdapterDense(const Sweep& sweep) {
  return {&sweep.model.embedding_adapter.b, sweep.batch.tokens, sweep.model.lora_rank,
          sweep.model.config.hidden_size,
          static_cast<float>(sweep.model.lora_scale) * TokenEmbeddingSpec(sweep.model).scale};
}

// Source: peft lora.Embedding, whose product the embedding's own scale multiplies too.
void AdapterEmbed(const Sweep& sweep) {
  if (sweep.model.embedding_adapter.a.value == nullptr) return;
  kernels::EmbeddingForwardArgs rows;
  rows.spec = AdapterEmbeddingSpec(sweep.model);
  rows.tokens = sweep.batch.tokens;
  rows.ids = sweep.buffers.tokens;
  rows.weight = sweep.model.embedding_adapter.a.value;
  rows.out = sweep.buffers.embedding_lora_h;
  kernels::EmbeddingForward(rows, sweep.stream);
  DenseForward(sweep, AdapterDense(sweep),
               {rows.out, /*bias=*/nullptr, sweep.ops.embedded, /*accumulate=*/true});
}

void AdapterEmbedBackward(const Sweep& sweep) {
  const Buffers& buffers = sweep.buffers;
  if (sweep.model.embedding_adapter.a.value == nullptr) return;
  const Dense dense = AdapterDense(sweep);
  DenseWeightGradient(sweep, dense, {buffers.dres, buffers.embedding_lora_h, /*accumulate=*/true});
  DenseInputGradient(sweep, dense, {buffers.dres, buffers.embedding_lora_dh});
  kernels::EmbeddingBackwardArgs rows;
  rows.spec = AdapterEmbeddingSpec(sweep.model);
  rows.tokens = sweep.batch.tokens;
  rows.ids = buffers.tokens;
  rows.dout = buffers.embedding_lora_dh;
  rows.dweight = sweep.model.embedding_adapter.a.gradient;
  rows.workspace = buffers.scratch;
  kernels::EmbeddingBackward(rows, sweep.stream);
}

void Embed(const Sweep& sweep) {
  kernels::EmbeddingForwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(sweep.model);
  embedding.tokens = sweep.batch.tokens;
  embedding.ids = sweep.buffers.tokens;
  embedding.weight = sweep.model.embedding.value;
  embedding.out = sweep.ops.embedded;
  kernels::EmbeddingForward(embedding, sweep.stream);
  AdapterEmbed(sweep);
}

// Of this rank's lookups the whole matrix, of all ranks' the range that this one owns. Those come
// behind the reduction, which no companion outlives, and every replica adds them: to nearest.
void EmbeddingBackward(const Sweep& sweep, const EmbeddingRows& lookups,
                       const kernels::GradientSum& sum) {
  kernels::EmbeddingBackwardArgs embedding;
  embedding.spec = TokenEmbeddingSpec(sweep.model);
  embedding.tokens = lookups.tokens;
  embedding.ids = lookups.ids;
  embedding.dout = lookups.rows;
  embedding.dweight = sweep.model.embedding.gradient;
  embedding.begin = lookups.owned.begin;
  embedding.end = lookups.owned.end;
  embedding.sum = sum;
  embedding.workspace = sweep.buffers.scratch;
  kernels::EmbeddingBackward(embedding, sweep.stream);
}

// Before the ops that raise them.
void ClearAmaxes(const Sweep& sweep, const BoundAmaxes& amaxes) {
  if (amaxes.count == 0) return;
  kernels::SetMemory(amaxes.first, 0, amaxes.count * kernels::DTypeBytes(kernels::DType::kFloat32),
                     sweep.stream);
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

kernels::EmbeddingSpec AdapterEmbeddingSpec(const Model& model) {
  return {.dtype = model.compute_dtype,
          .grad_dtype = kernels::DType::kFloat32,
          .vocab = model.config.vocab_size,
          .hidden = model.lora_rank};
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
  if (!sweep.idle()) {
    ClearAmaxes(sweep, sweep.ops.values);
    Embed(sweep);
  }
  for (int64_t layer = 0; layer < sweep.model.config.num_layers; ++layer) {
    sweep.units->Enter(UnitOf(layer));
    if (sweep.idle()) continue;
    if (sweep.first) UpdateDoraFactors(sweep, layer);
    QuantizeKeptWeights(sweep, layer);
    BlockForward(sweep, layer);
  }
  sweep.units->Enter(HeadUnit(sweep.model));
  if (sweep.idle()) return;
  for (const BoundOp& op : sweep.ops.tail) RunForward(sweep, op);
}

void BackwardFromFinalNorm(const Sweep& sweep) {
  if (!sweep.idle()) {
    ClearAmaxes(sweep, sweep.ops.gradients);
    NormBackward(sweep, sweep.ops.final_norm);
  }
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
  if (rows) return EmbeddingBackward(sweep, sweep.units->TakeRows(), {});
  const Tensor& embedding = sweep.model.embedding;
  if (!sweep.idle() && embedding.gradient != nullptr) {
    EmbeddingBackward(sweep, OwnRows(sweep), SumOf(sweep, embedding));
  }
  if (!sweep.idle()) AdapterEmbedBackward(sweep);
  sweep.units->ReduceGradients(plan::kEmbeddingUnit);
}

}  // namespace coxswain::engine
