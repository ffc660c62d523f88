#include "worker/engine/lm_head.h"

#include <algorithm>

#include "kernels/reduce.h"
#include "kernels/row_gather.h"
#include "kernels/target_hits.h"
#include "worker/engine/dense.h"

namespace coxswain::engine {
namespace {

// Rows [begin, begin + count) of the list of rows with a target.
struct Chunk {
  int64_t begin = 0, count = 0;
};

kernels::RowGatherArgs Gather(const Pass& pass, Chunk chunk) {
  kernels::RowGatherArgs args;
  args.spec.dtype = pass.model.dtype;
  args.spec.columns = pass.model.config.hidden_size;
  args.rows = chunk.count;
  args.index = pass.buffers.rows + chunk.begin;
  return args;
}

void AddTo(double* sum, const float* values, const Pass& pass, Chunk chunk) {
  kernels::SumArgs args;
  args.count = chunk.count;
  args.values = values;
  args.sum = sum;
  args.accumulate = true;
  kernels::Sum(args, pass.stream);
}

void Losses(const Pass& pass, Chunk chunk, const kernels::CrossEntropySpec& spec) {
  kernels::CrossEntropyArgs loss;
  loss.spec = spec;
  loss.rows = chunk.count;
  loss.logits = pass.buffers.logits;
  loss.targets = pass.buffers.labels + chunk.begin;
  loss.gradient_scale = pass.batch.train ? &pass.buffers.scalars->gradient_scale : nullptr;
  loss.loss = pass.buffers.head_loss;
  loss.nll = pass.buffers.head_nll;
  kernels::CrossEntropy(loss, pass.stream);
  AddTo(&pass.buffers.scalars->loss_sum,
        pass.batch.train ? pass.buffers.head_loss : pass.buffers.head_nll, pass, chunk);
}

// Of an evaluation, whose logits are as they were: its objective is not wanted and makes room.
void Hits(const Pass& pass, Chunk chunk, const kernels::CrossEntropySpec& spec) {
  kernels::TargetHitsArgs hits;
  hits.spec = {.dtype = spec.dtype, .vocab = spec.vocab};
  hits.rows = chunk.count;
  hits.logits = pass.buffers.logits;
  hits.targets = pass.buffers.labels + chunk.begin;
  hits.hits = pass.buffers.head_loss;
  kernels::TargetHits(hits, pass.stream);
  AddTo(&pass.buffers.scalars->hits, pass.buffers.head_loss, pass, chunk);
}

Dense Head(const Pass& pass, Chunk chunk) {
  return {&pass.model.head, chunk.count, pass.model.config.hidden_size,
          pass.model.config.vocab_size};
}

// logits holds dlogits: the weight gradient comes first, so that its reduction can overlap.
void Gradients(const Pass& pass, Chunk chunk) {
  const Buffers& buffers = pass.buffers;
  const Dense head = Head(pass, chunk);
  if (pass.model.head.gradient != nullptr) {
    DenseWeightGradient(pass, head, {buffers.logits, buffers.head_x});
  }
  DenseInputGradient(pass, head, {buffers.logits, buffers.head_dx});
  kernels::RowGatherArgs scatter = Gather(pass, chunk);
  scatter.in = buffers.head_dx;
  scatter.out = buffers.dnorm;
  kernels::ScatterAddRows(scatter, pass.stream);
}

}  // namespace

void LmHead(const Pass& pass, int64_t chunk_rows, kernels::CrossEntropySpec spec) {
  const Buffers& buffers = pass.buffers;
  if (pass.batch.train) {
    const int64_t bytes =
        pass.batch.tokens * pass.model.config.hidden_size * kernels::DTypeBytes(pass.model.dtype);
    kernels::SetMemory(buffers.dnorm, 0, bytes, pass.stream);
  }
  for (int64_t begin = 0; begin < pass.batch.target_rows; begin += chunk_rows) {
    const Chunk chunk{begin, std::min(chunk_rows, pass.batch.target_rows - begin)};
    kernels::RowGatherArgs gather = Gather(pass, chunk);
    gather.in = buffers.final_norm;
    gather.out = buffers.head_x;
    kernels::GatherRows(gather, pass.stream);
    DenseForward(pass, Head(pass, chunk), {buffers.head_x, nullptr, buffers.logits});
    Losses(pass, chunk, spec);
    if (pass.batch.train) {
      Gradients(pass, chunk);
    } else {
      Hits(pass, chunk, spec);
    }
  }
}

}  // namespace coxswain::engine
