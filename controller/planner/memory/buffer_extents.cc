#include "controller/planner/memory/buffer_extents.h"

#include <algorithm>

#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/extents.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/quantize_pieces.h"
#include "common/plan/storage.h"
#include "controller/planner/memory/attention_workspace.h"
#include "kernels/tensor_records.h"

namespace coxswain::planner {
namespace {

int64_t Align(int64_t bytes) { return CeilDiv(bytes, 256) * 256; }

// Float elements: W A^T of the widest linear and A A^T, or two rows of sums.
int64_t DoraElements(const plan::Plan& plan, const BufferExtents& n) {
  if (!plan.lora.dora) return 0;
  const int64_t rank = plan.lora.rank;
  return std::max({n.hidden, n.query, n.intermediate}) * std::max<int64_t>(2, rank) + rank * rank;
}

int64_t CpuScratchBytes(const plan::Plan& plan, const BufferExtents& n) {
  const int64_t dim = std::max(plan.model.head_dim, plan.model.value_dim());
  const int64_t block_rows =
      std::max<int64_t>(128, 16 * (plan.model.num_heads / plan.model.num_kv_heads));
  int64_t attention = 2 * block_rows * (2 * dim + plan.sequence_len);
  if (plan.fp8.attention) {  // rows and keys of a tile, codes, products and sums
    attention = std::max(attention, block_rows * (3 * dim + 256) + 256 * dim);
  }
  const int64_t adapters =
      3 * plan.lora.rank * n.tokens + 128 * std::max({n.hidden, n.query, n.intermediate});
  const int64_t columns = (n.tokens / 64 + 1) * std::max({n.packed, 2 * n.intermediate, 2 * dim});
  return 4096 + 4 * std::max({attention, adapters, columns, DoraElements(plan, n)});
}

int64_t CudaAttentionBytes(const plan::Plan& plan) {
  return std::max(std::min(FastestAttentionBytes(plan), plan.attention_workspace_bytes),
                  Fp8AttentionBytes(plan));
}

// Parts of 64 keys, of each a row of float sums and two numbers
// (kernels/cuda/attention/cached_attention.cu).
int64_t CachedAttentionBytes(const plan::Plan& plan) {
  return 4 * plan.generation.sequences * plan.model.num_heads * (plan.model.value_dim() + 2) *
         CeilDiv(plan.generation.length, 64);
}

// Of the adapters of stacks.
int64_t WidestRank(const plan::Plan& plan) {
  int64_t rank = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.kind != model::Kind::kExperts || !model::IsLoraA(parameter)) continue;
    rank = std::max(rank, parameter.rows / parameter.batch);
  }
  return rank;
}

// The gradient of an expert adapter's inner values; on a GPU also the sums of the parts into which
// its gradients are cut: two of each of 160 ranges of rows at most, of 2,048 columns at rank 16.
int64_t ExpertAdapterBytes(const plan::Plan& plan, const BufferExtents& n) {
  if (plan.lora.rank == 0) return 0;
  const int64_t inner =
      Align(4 * plan.model.mixture.chosen * n.tokens * std::max(plan.lora.rank, WidestRank(plan)));
  return inner + (plan.device == DeviceKind::kCuda ? 4 * int64_t{2} * 160 * 2048 * 16 : 0);
}

// Two numbers of each row for the losses, or the counts of blocks of rows while pairs are sorted.
int64_t RouterScratchBytes(const plan::Plan& plan, const BufferExtents& n) {
  const model::Mixture& mixture = plan.model.mixture;
  if (mixture.experts == 0) return 0;
  return std::max<int64_t>(
      {4 << 20, 32 * n.tokens + 16 * mixture.experts * 1024, ExpertAdapterBytes(plan, n)});
}

int64_t CudaScratchBytes(const plan::Plan& plan, const BufferExtents& n) {
  const bool dropout = plan.lora.rank > 0 && plan.lora.dropout > 0;
  const int64_t widest = std::max({n.hidden, n.query, n.intermediate});
  const int64_t gemm = (int64_t{64} << 20) + Align(n.element * n.tokens * 3 * plan.lora.rank) +
                       (dropout ? n.element * n.tokens * widest : 0);
  const int64_t columns = 4 * 1024 * std::max({n.packed, 2 * n.intermediate, n.hidden});
  const int64_t lookups = std::max(n.tokens, n.embedding_rows);
  const int64_t embedding =
      128 * lookups + 4 * std::max(n.hidden, plan.lora.rank) * (lookups / 64 + 1);
  const int64_t dora = (int64_t{64} << 20) + 4 * DoraElements(plan, n);
  return (int64_t{1} << 20) + std::max({gemm, CudaAttentionBytes(plan), columns, embedding, dora,
                                        CachedAttentionBytes(plan)});
}

// Of a product in FP8, [m, n] by k. The CPU decodes both operands and has the sums beside. A GPU
// has the library's scratch, float32 sums of panels of 64 MiB or 128 rows, and for tiles the scales
// of a panel: at most 1/128 of its elements each. Quantising needs less.
int64_t Fp8ScratchBytes(const plan::Plan& plan, const BufferExtents& n) {
  if (plan.fp8.recipe == plan::Fp8Recipe::kNone) return 0;
  int64_t bytes = 0;
  const auto on_cpu = [](int64_t rows, int64_t in, int64_t out) {
    return 4 * (rows * (in + out) + in * out) + 4096;
  };
  plan::VisitFp8Linears(plan, [&](const auto& linear, int64_t /*layer*/) {
    const int64_t in = linear.in_features, out = linear.out_features;
    bytes = std::max(bytes, plan.device == DeviceKind::kCuda
                                ? (int64_t{192} << 20) + 512 * std::max(in, out)
                                : on_cpu(n.tokens, in, out));
  });
  // Of experts a GPU has the maxima of parts of each matrix.
  plan::VisitFp8Experts(plan, [&](const model::GroupedLinearOp& experts, int64_t /*layer*/) {
    const int64_t in = experts.in_features, out = experts.out_features;
    bytes = std::max(bytes, plan.device == DeviceKind::kCuda
                                ? experts.experts << 12
                                : std::max(on_cpu(plan::RowsOf(experts, n.tokens), in, out),
                                           experts.experts * (out / 32 + 256)));
  });
  return bytes;
}

}  // namespace

BufferExtents::BufferExtents(const plan::Plan& plan) {
  const model::ModelConfig& model = plan.model;
  const plan::BatchExtents batch(plan);
  element = plan::ComputeBytes(plan);
  tokens = batch.tokens;
  embedding_rows = batch.embedding_rows;
  hidden = model.hidden_size;
  const int64_t from_latent = model.latent ? model.latent->nope + model.latent->value : 0;
  query = model.num_heads * std::max({model.head_dim, model.value_dim(), from_latent});
  packed =
      model.num_heads * model.head_dim + model.num_kv_heads * (model.head_dim + model.value_dim());
  intermediate = model.intermediate_size;
}

int64_t ScratchBytes(const plan::Plan& plan, const BufferExtents& n) {
  const int64_t steps =
      plan.device == DeviceKind::kCuda ? CudaScratchBytes(plan, n) : CpuScratchBytes(plan, n);
  return std::max({steps, plan::QuantizeScratchBytes(plan), RouterScratchBytes(plan, n),
                   Fp8ScratchBytes(plan, n)});
}

}  // namespace coxswain::planner
