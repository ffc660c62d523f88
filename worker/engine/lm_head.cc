#include "worker/engine/lm_head.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/row_gather.h"

namespace coxswain::engine {
namespace {

// Rows [begin, begin + count) of the list of rows with a target.
struct Chunk {
  int64_t begin = 0, count = 0;
};

kernels::RowGatherArgs Gather(const Pass& pass, Chunk chunk) {
  kernels::RowGatherArgs args;
  args.spec.columns = pass.model.config.hidden_size;
  args.rows = chunk.count;
  args.index = pass.buffers.rows + chunk.begin;
  return args;
}

// logits = x W^T
void Logits(const Pass& pass, Chunk chunk) {
  const int64_t hidden = pass.model.config.hidden_size, vocab = pass.model.config.vocab_size;
  kernels::GemmArgs gemm;
  gemm.spec.transpose_b = true;
  gemm.m = chunk.count;
  gemm.n = vocab;
  gemm.k = hidden;
  gemm.a = pass.buffers.head_x;
  gemm.lda = hidden;
  gemm.b = pass.model.head.value;
  gemm.ldb = hidden;
  gemm.c = pass.buffers.logits;
  gemm.ldc = vocab;
  gemm.workspace = pass.buffers.scratch;
  kernels::Gemm(gemm, pass.stream);
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
  kernels::SumArgs sum;
  sum.count = chunk.count;
  sum.values = pass.batch.train ? pass.buffers.head_loss : pass.buffers.head_nll;
  sum.sum = &pass.buffers.scalars->loss_sum;
  sum.accumulate = true;
  kernels::Sum(sum, pass.stream);
}

// logits holds dlogits: dW += dlogits^T x (first, so that its reduction can overlap), dx = dlogits
// W.
void Gradients(const Pass& pass, Chunk chunk) {
  const int64_t hidden = pass.model.config.hidden_size, vocab = pass.model.config.vocab_size;
  if (pass.model.head.gradient != nullptr) {
    kernels::GemmArgs wgrad;
    wgrad.spec.transpose_a = true;
    wgrad.m = vocab;
    wgrad.n = hidden;
    wgrad.k = chunk.count;
    wgrad.a = pass.buffers.logits;
    wgrad.lda = vocab;
    wgrad.b = pass.buffers.head_x;
    wgrad.ldb = hidden;
    wgrad.beta = 1.0f;
    wgrad.c = pass.model.head.gradient;
    wgrad.ldc = hidden;
    wgrad.workspace = pass.buffers.scratch;
    kernels::Gemm(wgrad, pass.stream);
  }
  kernels::GemmArgs dgrad;
  dgrad.m = chunk.count;
  dgrad.n = hidden;
  dgrad.k = vocab;
  dgrad.a = pass.buffers.logits;
  dgrad.lda = vocab;
  dgrad.b = pass.model.head.value;
  dgrad.ldb = hidden;
  dgrad.c = pass.buffers.head_dx;
  dgrad.ldc = hidden;
  dgrad.workspace = pass.buffers.scratch;
  kernels::Gemm(dgrad, pass.stream);
  kernels::RowGatherArgs scatter = Gather(pass, chunk);
  scatter.in = pass.buffers.head_dx;
  scatter.out = pass.buffers.dnorm;
  kernels::ScatterAddRows(scatter, pass.stream);
}

}  // namespace

void LmHead(const Pass& pass, int64_t chunk_rows, kernels::CrossEntropySpec spec) {
  spec.vocab = pass.model.config.vocab_size;
  if (pass.batch.train) {
    const int64_t bytes =
        pass.batch.tokens * pass.model.config.hidden_size * static_cast<int64_t>(sizeof(float));
    kernels::SetMemory(pass.buffers.dnorm, 0, bytes, pass.stream);
  }
  for (int64_t begin = 0; begin < pass.batch.target_rows; begin += chunk_rows) {
    const Chunk chunk{begin, std::min(chunk_rows, pass.batch.target_rows - begin)};
    kernels::RowGatherArgs gather = Gather(pass, chunk);
    gather.in = pass.buffers.final_norm;
    gather.out = pass.buffers.head_x;
    kernels::GatherRows(gather, pass.stream);
    Logits(pass, chunk);
    Losses(pass, chunk, spec);
    if (pass.batch.train) Gradients(pass, chunk);
  }
}

}  // namespace coxswain::engine
