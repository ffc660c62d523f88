// Attention of single rows over cached keys and values: how a text is written on, token by token.
// Row r of sequence s = sequences[r] lies at position p = positions[r] and sees the cached
// positions max(0, p - window + 1) .. p of s (window 0: 0 .. p), p's own included:
//   S = scale q K^T;  P = softmax(S);  out = P V
// Heads of v and out may be narrower or wider than those of q and k, and heads may have sinks, as
// in kernels/attention/attention.h.
// Source: kernels/attention/attention.h, of which it is a row; Dao et al., "Flash-Decoding for
// long-context inference", 2023 (keys in parts that are joined by their maxima and sums).
#ifndef COXSWAIN_KERNELS_ATTENTION_CACHED_ATTENTION_H_
#define COXSWAIN_KERNELS_ATTENTION_CACHED_ATTENTION_H_

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// Of `attention`: heads, their widths, window, scale, softcap, sinks and dtypes; strides 0.
struct CachedAttentionSpec {
  AttentionSpec attention = {};
  int64_t length = 0;  // L, positions that the cache has of each sequence
};
// head_dim and value_dim at most 256.
bool CachedAttentionSupports(const CachedAttentionSpec& spec);

// Keys and values of one layer, of all sequences.
struct KeyValueCache {
  void* keys = nullptr;    // [S, L, nkv hd]
  void* values = nullptr;  // [S, L, nkv vd]
};

// Rows of a batch and what they are of, in device memory. Sequence -1: none, the row is padding.
struct CacheRows {
  int64_t count = 0;                   // R
  const int32_t* sequences = nullptr;  // [R], below S
  const int32_t* positions = nullptr;  // [R], in [0, L) where the row has a sequence
};

// keys[s, p] = k of the row, values[s, p] = v. No two rows are of one place.
struct CacheAppendArgs {
  CachedAttentionSpec spec = {};
  CacheRows rows = {};
  const void* qkv = nullptr;  // [R, (nq + nkv) hd + nkv vd], k rotated
  KeyValueCache cache = {};
};
void CacheAppend(const CacheAppendArgs& args, Stream* stream);

int64_t CachedAttentionWorkspaceBytes(const CachedAttentionSpec& spec, int64_t rows);

struct CachedAttentionArgs {
  CachedAttentionSpec spec = {};
  CacheRows rows = {};
  const void* qkv = nullptr;    // [R, (nq + nkv) hd + nkv vd]: q is read
  const void* sinks = nullptr;  // [nq] of attention.sink_dtype; null without attention.sinks
  KeyValueCache cache = {};
  void* out = nullptr;  // [R, nq vd]; zeros in a row without sequence
  Workspace workspace = {};
};
void CachedAttention(const CachedAttentionArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_CACHED_ATTENTION_H_
