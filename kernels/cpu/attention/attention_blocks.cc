#include "kernels/cpu/attention/attention_blocks.h"

#include <algorithm>

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {
namespace {

COXSWAIN_INLINE void CopyScaled(const float* x, float scale, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] * scale;
}

}  // namespace

AttentionShape::AttentionShape(const AttentionSpec& spec)
    : dim(spec.head_dim),
      value_dim(ValueDim(spec)),
      heads(spec.num_heads / spec.num_kv_heads),
      q_row(QueryRow(spec)),
      k_row(KeyRow(spec)),
      v_row(ValueRow(spec)),
      out_row(spec.num_heads * value_dim),
      block_queries(std::max(kMinBlockQueries, kBlockRows / heads)),
      window(spec.window),
      softcap(spec.softcap) {}

int64_t AttentionShape::MaxKeys(int64_t document_length) const {
  return window == 0 ? document_length : std::min(document_length, window + block_queries - 1);
}

AttentionBlock MakeBlock(const AttentionShape& shape, int64_t start, int64_t length,
                         int64_t first) {
  AttentionBlock block;
  block.start = start;
  block.first = first;
  block.queries = std::min(shape.block_queries, length - first);
  block.key_first = shape.window == 0 ? 0 : std::max<int64_t>(0, first + 1 - shape.window);
  block.keys = first + block.queries - block.key_first;
  return block;
}

COXSWAIN_VECTORIZE void GatherBlock(const BlockCopy& copy, const float* heads, float* rows) {
  const int64_t dim = copy.dim;
  const int64_t token = copy.block.start + copy.block.first;
  for (int64_t h = 0; h < copy.shape.heads; ++h) {
    for (int64_t i = 0; i < copy.block.queries; ++i, rows += dim) {
      CopyScaled(heads + (token + i) * copy.stride + h * dim, copy.scale, rows, dim);
    }
  }
}

COXSWAIN_VECTORIZE void ScatterBlock(const BlockCopy& copy, const float* rows, float* heads) {
  const int64_t dim = copy.dim;
  const int64_t token = copy.block.start + copy.block.first;
  for (int64_t h = 0; h < copy.shape.heads; ++h) {
    for (int64_t i = 0; i < copy.block.queries; ++i, rows += dim) {
      CopyScaled(rows, copy.scale, heads + (token + i) * copy.stride + h * dim, dim);
    }
  }
}

}  // namespace coxswain::kernels::cpu
