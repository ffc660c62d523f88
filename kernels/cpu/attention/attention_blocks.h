// The pieces that attention forward and backward share: which rows and keys a block covers, and the
// copies between rows of heads and the contiguous rows of a block.
//
// A block is kBlockRows rows of one kv head's query group: `heads` query heads times `queries`
// consecutive positions, head by head. All its scores are one product, so that grouped heads share
// the reads of K and V; the scratch is [rows, keys] and grows with the document, not with its
// square.
#ifndef COXSWAIN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
#define COXSWAIN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/cpu/check.h"

namespace coxswain::kernels::cpu {

inline constexpr int64_t kBlockRows = 128;
inline constexpr int64_t kMinBlockQueries = 16;

// Widths that do not change during a launch.
struct AttentionShape {
  explicit AttentionShape(const AttentionSpec& spec);
  int64_t dim;        // hd
  int64_t value_dim;  // vd
  int64_t heads;      // query heads of one kv head
  int64_t q_row;      // elements from row to row
  int64_t k_row, v_row;
  int64_t out_row;        // nq vd
  int64_t block_queries;  // positions of a full block
  int64_t window;         // 0: none
  float softcap;          // 0: none

  int64_t block_rows() const { return heads * block_queries; }
  // Most keys that one block sees in a document of that length.
  int64_t MaxKeys(int64_t document_length) const;
};

// Positions [first, first + queries) of a document that starts at token `start`, and the keys
// [key_first, key_first + keys) that they see, both counted from `start`.
struct AttentionBlock {
  int64_t start, first, queries, key_first, keys;

  // Keys of the position first + i, as columns [Begin, End) of the block.
  int64_t End(int64_t i) const { return first + i + 1 - key_first; }
  int64_t Begin(int64_t i, int64_t window) const {
    if (window == 0) return 0;
    const int64_t begin = first + i + 1 - window - key_first;
    return begin > 0 ? begin : 0;
  }
};

AttentionBlock MakeBlock(const AttentionShape& shape, int64_t start, int64_t length, int64_t first);

// block [heads queries, dim] = scale times the group's heads of each row; and the reverse copy.
// `heads` points at the first head of the group in token 0, rows are `stride` apart.
struct BlockCopy {
  const AttentionShape& shape;
  const AttentionBlock& block;
  int64_t dim, stride;
  float scale;
};
void GatherBlock(const BlockCopy& copy, const float* heads, float* rows);
void ScatterBlock(const BlockCopy& copy, const float* rows, float* heads);

// fn(start, length, kv_head) for every document that is not empty.
template <typename Fn>
void ForEachDocumentHead(const Documents& documents, int64_t kv_heads, const Fn& fn) {
  for (int64_t d = 0; d < documents.count; ++d) {
    const int64_t start = documents.cu_seqlens[d];
    const int64_t length = documents.cu_seqlens[d + 1] - start;
    for (int64_t g = 0; length > 0 && g < kv_heads; ++g) fn(start, length, g);
  }
}

// Where the kv head's group and its keys and values begin, in elements of their tensors.
struct BlockPlaces {
  int64_t heads, query, out, key, value;
};
inline BlockPlaces PlacesOf(const AttentionShape& shape, const AttentionBlock& block, int64_t g) {
  const int64_t first = block.start + block.key_first, heads = g * shape.heads;
  return {.heads = heads,
          .query = heads * shape.dim,
          .out = heads * shape.value_dim,
          .key = first * shape.k_row + g * shape.dim,
          .value = first * shape.v_row + g * shape.value_dim};
}

inline const float* SinksOfGroup(const void* sinks, const BlockPlaces& at) {
  return sinks == nullptr ? nullptr : static_cast<const float*>(sinks) + at.heads;
}

// Hands out aligned pieces of a workspace.
class Pieces {
 public:
  explicit Pieces(const Workspace& workspace) : next_(static_cast<char*>(workspace.data)) {}
  float* Take(int64_t floats) {
    float* piece = reinterpret_cast<float*>(next_);
    next_ += AlignedFloatBytes(floats);
    return piece;
  }

 private:
  char* next_;
};

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
