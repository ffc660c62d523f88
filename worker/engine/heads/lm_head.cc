#include "worker/engine/heads/lm_head.h"

#include <algorithm>

#include "common/plan/extents.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/tensors/rows.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/heads/cut_head.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/linear.h"

namespace coxswain::engine {
namespace {

// Rows [begin, begin + count) of the list of rows with a target.
struct Chunk {
  int64_t begin = 0, count = 0;
  int64_t number = 0;  // of the chunk
};

Chunk AllRows(const Sweep& sweep) { return {0, sweep.batch.target_rows}; }

kernels::RowGatherArgs Gather(const Sweep& sweep, Chunk chunk) {
  kernels::RowGatherArgs args;
  args.spec.dtype = sweep.model.compute_dtype;
  args.spec.columns = sweep.model.config.hidden_size;
  args.rows = chunk.count;
  args.index = sweep.buffers.rows + chunk.begin;
  return args;
}

int64_t Stride(const Sweep& sweep) {
  return plan::LogitsStride(sweep.model.config.vocab_size,
                            kernels::DTypeBytes(sweep.model.compute_dtype));
}

kernels::DropoutMask Mask(const Sweep& sweep, Chunk chunk) {
  kernels::DropoutMask mask = DropoutOf(sweep, sweep.model.adapted_head);
  if (sweep.model.lora_dropout == 0) return mask;
  mask.bins = sweep.buffers.row_bins + chunk.begin;
  mask.positions = sweep.buffers.row_positions + chunk.begin;
  return mask;
}

void AddTo(double* sum, const float* values, const Sweep& sweep, Chunk chunk) {
  kernels::SumArgs args;
  args.count = chunk.count;
  args.values = values;
  args.sum = sum;
  args.accumulate = true;
  kernels::Sum(args, sweep.stream);
}

kernels::CrossEntropyArgs LossesOf(const Sweep& sweep, Chunk chunk,
                                   const kernels::CrossEntropySpec& spec) {
  kernels::CrossEntropyArgs loss;
  loss.spec = spec;
  loss.rows = chunk.count;
  loss.logits = sweep.buffers.logits;
  loss.ld = Stride(sweep);
  loss.targets = sweep.buffers.labels + chunk.begin;
  loss.loss = sweep.buffers.head_loss;
  return loss;
}

void Losses(const Sweep& sweep, Chunk chunk, const kernels::CrossEntropySpec& spec) {
  kernels::CrossEntropyArgs loss = LossesOf(sweep, chunk, spec);
  loss.gradient_scale = sweep.batch.train ? &sweep.buffers.scalars->gradient_scale : nullptr;
  loss.nll = sweep.buffers.head_nll;
  kernels::CrossEntropy(loss, sweep.stream);
  AddTo(&sweep.buffers.scalars->loss_sum,
        sweep.batch.train ? sweep.buffers.head_loss : sweep.buffers.head_nll, sweep, chunk);
}

// Of an evaluation, whose logits are as they were: its objective is not wanted and makes room.
void Hits(const Sweep& sweep, Chunk chunk, const kernels::CrossEntropySpec& spec) {
  kernels::TargetHitsArgs hits;
  hits.spec = {.dtype = spec.dtype, .vocab = spec.vocab};
  hits.rows = chunk.count;
  hits.logits = sweep.buffers.logits;
  hits.ld = Stride(sweep);
  hits.targets = sweep.buffers.labels + chunk.begin;
  hits.hits = sweep.buffers.head_loss;
  kernels::TargetHits(hits, sweep.stream);
  AddTo(&sweep.buffers.scalars->hits, sweep.buffers.head_loss, sweep, chunk);
}

Dense Head(const Sweep& sweep, Chunk chunk) {
  const model::ModelConfig& config = sweep.model.config;
  return {&sweep.model.head,
          chunk.count,
          config.hidden_size,
          config.vocab_size,
          static_cast<float>(config.logit_scale),
          Stride(sweep)};
}

bool Adapted(const Sweep& sweep) { return !sweep.model.adapted_head.adapters.members.empty(); }

// h of this chunk stays for its gradients.
void AdaptedForward(const Sweep& sweep, Chunk chunk) {
  kernels::LoraLinearForwardArgs lora;
  lora.spec = HeadLoraSpec(sweep.model, sweep.batch.train);
  lora.mask = Mask(sweep, chunk);
  lora.rows = chunk.count;
  lora.x = sweep.buffers.head_x;
  lora.weight = sweep.model.head.value;
  lora.a = sweep.model.adapted_head.adapters.a.value;
  lora.h = sweep.buffers.head_lora_h;
  lora.y = sweep.buffers.logits;
  lora.workspace = sweep.buffers.scratch;
  kernels::LoraLinearForward(lora, sweep.stream);
}

void AdaptedBackward(const Sweep& sweep, Chunk chunk) {
  const Adapters& adapters = sweep.model.adapted_head.adapters;
  kernels::LoraLinearBackwardArgs lora;
  lora.spec = HeadLoraSpec(sweep.model, sweep.batch.train);
  lora.mask = Mask(sweep, chunk);
  lora.rows = chunk.count;
  lora.x = sweep.buffers.head_x;
  lora.weight = sweep.model.head.value;
  lora.a = adapters.a.value;
  lora.da = adapters.a.gradient;
  lora.h = sweep.buffers.head_lora_h;
  lora.dy = sweep.buffers.logits;
  lora.dx = sweep.buffers.head_dx;
  lora.workspace = sweep.buffers.scratch;
  kernels::LoraLinearBackward(lora, sweep.stream);
}

// logits holds dlogits: the weight gradient comes first, so that its reduction can overlap.
void Gradients(const Sweep& sweep, Chunk chunk) {
  const Buffers& buffers = sweep.buffers;
  const Dense head = Head(sweep, chunk);
  if (sweep.model.head.gradient != nullptr) {
    const bool accumulate = chunk.begin > 0 || FindsGradient(sweep, sweep.model.head);
    DenseWeightGradient(sweep, head, {buffers.logits, buffers.head_x, accumulate, chunk.number});
  }
  if (Adapted(sweep)) {
    AdaptedBackward(sweep, chunk);
  } else {
    DenseInputGradient(sweep, head, {buffers.logits, buffers.head_dx});
  }
  kernels::RowGatherArgs scatter = Gather(sweep, chunk);
  scatter.in = buffers.head_dx;
  scatter.out = buffers.dnorm;
  kernels::ScatterAddRows(scatter, sweep.stream);
}

void Logits(const Sweep& sweep, Chunk chunk) {
  kernels::RowGatherArgs gather = Gather(sweep, chunk);
  gather.in = sweep.buffers.final_norm;
  gather.out = sweep.buffers.head_x;
  kernels::GatherRows(gather, sweep.stream);
  if (Adapted(sweep)) return AdaptedForward(sweep, chunk);
  DenseForward(sweep, Head(sweep, chunk), {sweep.buffers.head_x, nullptr, sweep.buffers.logits});
}

// A micro-step without targets has no product that would write them.
void ClearGradients(const Sweep& sweep) {
  const Tensor& head = sweep.model.head;
  if (head.gradient == nullptr || FindsGradient(sweep, head)) return;
  const int64_t bytes = sweep.model.config.vocab_size * sweep.model.config.hidden_size *
                        kernels::DTypeBytes(head.gradient_dtype);
  kernels::SetMemory(head.gradient, 0, bytes, sweep.stream);
}

// dnorm is 0 where no row has a target.
void BeginGradients(const Sweep& sweep) {
  const int64_t bytes = sweep.batch.tokens * sweep.model.config.hidden_size *
                        kernels::DTypeBytes(sweep.model.compute_dtype);
  kernels::SetMemory(sweep.buffers.dnorm, 0, bytes, sweep.stream);
  if (sweep.batch.target_rows == 0) ClearGradients(sweep);
}

template <typename OfChunk>
void ForChunks(const Sweep& sweep, int64_t chunk_rows, const OfChunk& of_chunk) {
  for (int64_t begin = 0; begin < sweep.batch.target_rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, sweep.batch.target_rows - begin);
    of_chunk(Chunk{begin, count, begin / chunk_rows});
  }
}

}  // namespace

kernels::LoraLinearSpec HeadLoraSpec(const Model& model, bool train) {
  kernels::LoraLinearSpec spec = LoraSpec(model, model.adapted_head, train);
  spec.ldy = plan::LogitsStride(model.config.vocab_size, kernels::DTypeBytes(model.compute_dtype));
  spec.out_features = model.config.vocab_size;
  spec.scale = static_cast<float>(model.lora_scale * model.config.logit_scale);
  spec.weight_scale = static_cast<float>(model.config.logit_scale);
  return spec;
}

void HeadLogits(const Sweep& sweep) { Logits(sweep, AllRows(sweep)); }

void LmHead(const Sweep& sweep, const LossHead& head) {
  const bool train = sweep.batch.train;
  if (train) BeginGradients(sweep);
  if (head.panel_bytes > 0) {
    CutLosses(sweep, head);
    AddTo(&sweep.buffers.scalars->loss_sum,
          train ? sweep.buffers.head_loss : sweep.buffers.head_nll, sweep, AllRows(sweep));
    if (train) CutGradients(sweep, head, nullptr);
    return;
  }
  ForChunks(sweep, head.chunk_rows, [&](Chunk chunk) {
    Logits(sweep, chunk);
    Losses(sweep, chunk, head.spec);
    if (train) {
      Gradients(sweep, chunk);
    } else {
      Hits(sweep, chunk, head.spec);
    }
  });
}

void HeadLogProbs(const Sweep& sweep, const LossHead& head) {
  if (head.panel_bytes > 0) return CutLosses(sweep, head);
  ForChunks(sweep, head.chunk_rows, [&](Chunk chunk) {
    Logits(sweep, chunk);
    kernels::CrossEntropyArgs loss = LossesOf(sweep, chunk, head.spec);
    loss.nll = sweep.buffers.head_nll + chunk.begin;
    kernels::CrossEntropy(loss, sweep.stream);
    if (!sweep.batch.train) Hits(sweep, chunk, head.spec);
  });
}

void WeightedHead(const Sweep& sweep, const LossHead& head) {
  BeginGradients(sweep);
  const float* const weights = sweep.buffers.documents.weights;
  if (head.panel_bytes > 0) return CutGradients(sweep, head, weights);
  const bool kept = sweep.batch.target_rows <= head.chunk_rows;
  ForChunks(sweep, head.chunk_rows, [&](Chunk chunk) {
    if (!kept) Logits(sweep, chunk);
    kernels::CrossEntropyArgs loss = LossesOf(sweep, chunk, head.spec);
    loss.gradient_scale = &sweep.buffers.scalars->gradient_scale;
    loss.row_weights = weights + chunk.begin;
    kernels::CrossEntropy(loss, sweep.stream);
    Gradients(sweep, chunk);
  });
}

}  // namespace coxswain::engine
