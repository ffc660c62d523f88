// What the flash kernels share: their parameters, the score of a dot product, masks, and launches.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_PARAMS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_PARAMS_CUH_

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/attention/flash_tiles.cuh"
#include "kernels/cuda/attention/sinks.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// The order of the fields matters: ptxas loads neighbours together, and with value_dim beside dim
// the kernels of 128-wide heads spill in their loop.
struct FlashParams {
  int tokens = 0, documents = 0, slots = 0;
  int heads = 0, kv_heads = 0, dim = 0;
  int window = 0;  // 0: none
  float scale = 0, softcap = 0;
  int value_dim = 0;
  const int32_t* cu_seqlens = nullptr;
  int64_t q_row = 0, k_row = 0;  // elements from row to row
  const bf16* q = nullptr;
  const bf16* k = nullptr;
  const bf16* v = nullptr;
  const bf16* out = nullptr;
  const bf16* dout = nullptr;
  const float* lse = nullptr;  // [heads, tokens]
  bf16* dq = nullptr;          // rows as those of q, k, v
  bf16* dk = nullptr;
  bf16* dv = nullptr;
  int64_t v_row = 0;
  Sinks sinks = {};  // forward

  int widest() const { return std::max(dim, value_dim); }
  __device__ int group() const { return heads / kv_heads; }
  __device__ int64_t out_row() const { return int64_t{heads} * value_dim; }
  // Offsets of a head's row.
  __device__ int64_t query(int token, int h) const { return token * q_row + h * dim; }
  __device__ int64_t key(int token, int g) const { return token * k_row + g * dim; }
  __device__ int64_t value(int token, int g) const { return token * v_row + g * value_dim; }
  __device__ int64_t o(int token, int h) const { return token * out_row() + h * value_dim; }

  // Of the tiles of kKeys keys that rows of `tile` see: the first key of the first one, and a key
  // of the last one.
  template <int kKeys>
  __device__ int FirstKey(const DocumentTile& tile) const {
    const int seen = window == 0 ? tile.begin : max(tile.begin, tile.first - window + 1);
    return tile.begin + (seen - tile.begin) / kKeys * kKeys;
  }
  template <int kKeys>
  __device__ int LastKey(const DocumentTile& tile) const {
    if constexpr (kKeys == kFlashTile) return tile.first;
    return min(tile.first + kFlashTile, tile.end) - 1;
  }
  __device__ bool Visible(int query, int key) const {
    return key <= query && (window == 0 || key > query - window);
  }
  // Whether every row of the tile of queries sees every key of the tile of keys.
  template <int kQueries, int kKeys>
  __device__ bool AllVisible(int first_query, int first_key) const {
    return first_key + (kKeys - 1) <= first_query &&
           (window == 0 || first_key > first_query + (kQueries - 1) - window);
  }
  // Scores are kept as what times Log2Factor() is their base 2 logarithm.
  __device__ float Log2Factor() const { return softcap == 0.0f ? scale * kLog2E : kLog2E; }
};

// tanh from the exponential, to 1e-7 of 1: tanh.approx is off by 5e-4, too much below an exponent.
__device__ __forceinline__ float Tanh(float x) {
  return 1.0f - __fdividef(2.0f, 1.0f + Exp2(2.0f * kLog2E * x));
}

// Calls fn(n, i, row, column) for the accumulator elements of a lane: c[n][i] is that row (g or
// g + 8) and column of a [16, 8 kColumns] product.
template <int kColumns, typename Fn>
__device__ __forceinline__ void ForEachElement(const Fn& fn) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fn(n, i, lane / 4 + i / 2 * 8, n * 8 + lane % 4 * 2 + i % 2);
    }
  }
}

inline FlashParams MakeFlashParams(const AttentionSpec& spec, const Documents& documents,
                                   int64_t tokens, const HeadInputs& in) {
  FlashParams p;
  p.tokens = static_cast<int>(tokens);
  p.documents = static_cast<int>(documents.count);
  p.slots = static_cast<int>(TileSlots(tokens, documents.count));
  p.heads = static_cast<int>(spec.num_heads);
  p.kv_heads = static_cast<int>(spec.num_kv_heads);
  p.dim = static_cast<int>(spec.head_dim);
  p.value_dim = static_cast<int>(ValueDim(spec));
  p.window = static_cast<int>(std::min(spec.window, tokens));
  p.scale = spec.scale;
  p.softcap = spec.softcap;
  p.cu_seqlens = documents.cu_seqlens;
  p.q_row = QueryRow(spec);
  p.k_row = KeyRow(spec);
  p.q = static_cast<const bf16*>(in.q);
  p.k = static_cast<const bf16*>(in.k);
  p.v = static_cast<const bf16*>(in.v);
  p.v_row = ValueRow(spec);
  return p;
}

inline void RequireFlashAligned(const void* data, const char* name) {
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    throw std::invalid_argument(std::string("Attention: ") + name + " must be 16-byte aligned");
  }
}

template <typename Data>
void RequireFlashAligned(const HeadViews<Data>& heads) {
  RequireFlashAligned(heads.q, "q");
  RequireFlashAligned(heads.k, "k");
  RequireFlashAligned(heads.v, "v");
}

// Calls fn with the width that the kernels are compiled for, as an integral constant: heads of keys
// and of values run as those of the wider of both, with zeros behind them.
template <typename Fn>
void ForFlashDim(int64_t widest, const Fn& fn) {
  if (widest <= 32) return fn(std::integral_constant<int, 32>{});
  if (widest <= 64) return fn(std::integral_constant<int, 64>{});
  if (widest <= 96) return fn(std::integral_constant<int, 96>{});
  if (widest <= 128) return fn(std::integral_constant<int, 128>{});
  fn(std::integral_constant<int, 256>{});
}

// One block per (slot, head), head fastest so that the heads of a group share keys in the cache;
// with very many documents a block takes every n-th slot, for most are then empty.
inline unsigned FlashBlocks(const FlashParams& p, int heads) {
  const int64_t most = 2 * CeilDiv(int64_t{p.tokens}, int64_t{kFlashTile});
  return static_cast<unsigned>(std::min<int64_t>(p.slots, most) * heads);
}

template <typename Kernel, typename... Args>
void LaunchFlash(Kernel kernel, unsigned blocks, int shared_bytes, Stream* stream,
                 const Args&... args) {
  AllowSharedMemory(kernel, shared_bytes, "attention");
  kernel<<<blocks, kFlashThreads, static_cast<size_t>(shared_bytes), Handle(stream)>>>(args...);
}

// What a row of a head ends with: the factor of its sums, and lse. Of its scores come the largest
// one, as FlashParams keeps them, and the sum of their exponentials less that one.
struct RowEnd {
  float scale, lse;
};
__device__ __forceinline__ RowEnd EndOfRow(const FlashParams& p, int head, float maximum,
                                           float total) {
  if (!p.sinks.any()) {
    return {1.0f / total, maximum * (p.Log2Factor() / kLog2E) + logf(total)};
  }
  const float sink = p.sinks.of(head) * kLog2E, scores = maximum * p.Log2Factor();
  const float largest = fmaxf(scores, sink), shrink = Exp2(scores - largest);
  const float all = total * shrink + Exp2(sink - largest);
  return {shrink / all, largest / kLog2E + logf(all)};
}

// The probability of a dot product of q and k whose row has this base 2 logarithm of its sum, and
// the derivative of the score by the scaled dot product.
struct FlashProbability {
  float value, slope;
};
template <bool kSoftcap>
__device__ __forceinline__ FlashProbability ProbabilityOf(const FlashParams& p, float dot,
                                                          float log2_sum) {
  if constexpr (!kSoftcap) return {Exp2(dot * (p.scale * kLog2E) - log2_sum), 1.0f};
  const float t = Tanh(dot * (p.scale / p.softcap));
  return {Exp2(p.softcap * t * kLog2E - log2_sum), 1.0f - t * t};
}

// The two launches of backward. The first writes dQ and delta [heads, tokens] = rowsum(dO O), which
// the second reads; it writes dK and dV.
void LaunchFlashQueryGradient(const FlashParams& p, float* delta, Stream* stream);
void LaunchFlashKeyGradient(const FlashParams& p, const float* delta, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_FLASH_PARAMS_CUH_
