// The k rows of a token among the rows of a mixture's experts, which lie in the order of
// kernels/experts/expert_rows.h. A block has a token; a thread has a vector of the columns at a
// time, of up to kSlots of the token's rows together, so that their loads are in flight at once.
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_TOKEN_ROWS_CUH_
#define COXSWAIN_KERNELS_CUDA_LOSS_TOKEN_ROWS_CUH_

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kSlots = 8;
inline constexpr int kTokenThreads = 256;  // of a block at most

// Threads of a block for rows of so many vectors: each has as many as the next.
inline int TokenThreads(int64_t vectors) {
  const int64_t of_thread = CeilDiv(vectors, kTokenThreads);
  return static_cast<int>(CeilDiv(CeilDiv(vectors, of_thread), kWarp)) * kWarp;
}

// values[i] = index[i] for the next `count` slots of a token, `none` behind them.
template <typename T>
__device__ __forceinline__ void LoadSlots(const T* index, int64_t count, T none,
                                          T (&values)[kSlots]) {
#pragma unroll
  for (int i = 0; i < kSlots; ++i) values[i] = i < count ? index[i] : none;
}

// sums[t] = sum over slots s of weights[t, s] rows[places[t, s]], s rising; without weights they
// are 1. A slot with place -1 is left out, and its weight not read.
struct TokenSums {
  int64_t tokens, hidden, chosen;
  const int32_t* places;
  const float* weights;  // null: 1
  const void* rows;
  void* sums;
  bool accumulate = false;  // to what is there, else overwritten
};

template <typename V, bool kWeighted>
__global__ void __launch_bounds__(kTokenThreads) TokenSumsKernel(const TokenSums args) {
  using T = typename V::Element;
  const int64_t token = blockIdx.x, hidden = args.hidden;
  const T* rows = static_cast<const T*>(args.rows);
  T* sums = static_cast<T*>(args.sums) + token * hidden;
  for (int64_t column = int64_t{threadIdx.x} * V::kSize; column < hidden;
       column += int64_t{blockDim.x} * V::kSize) {
    V sum = {};
    if (args.accumulate) sum.Load(sums + column);
    for (int64_t slot = 0; slot < args.chosen; slot += kSlots) {
      const int64_t pair = token * args.chosen + slot;
      int32_t places[kSlots];
      float weights[kSlots];
      typename V::Raw raw[kSlots];
      LoadSlots(args.places + pair, args.chosen - slot, -1, places);
      if constexpr (kWeighted) LoadSlots(args.weights + pair, args.chosen - slot, 0.0f, weights);
#pragma unroll
      for (int i = 0; i < kSlots; ++i) {
        if (places[i] >= 0) raw[i] = V::FetchStreaming(rows + places[i] * hidden + column);
      }
#pragma unroll
      for (int i = 0; i < kSlots; ++i) {
        if (places[i] < 0) continue;
        V row;
        row.Unpack(raw[i]);
#pragma unroll
        for (int j = 0; j < V::kSize; ++j) {
          sum.value[j] = kWeighted ? fmaf(weights[i], row.value[j], sum.value[j])
                                   : sum.value[j] + row.value[j];
        }
      }
    }
    sum.Store(sums + column);
  }
}

template <bool kWeighted>
void SumTokens(const TokenSums& args, DType dtype, cudaStream_t stream) {
  if (args.tokens == 0) return;
  ForVectorOf(dtype, args.hidden, {args.rows, args.sums}, [&](auto vector) {
    using V = decltype(vector);
    TokenSumsKernel<V, kWeighted>
        <<<static_cast<unsigned>(args.tokens), TokenThreads(args.hidden / V::kSize), 0, stream>>>(
            args);
  });
}

// Throws where places of 32 bits do not count the rows.
inline void RequirePairs(int64_t tokens, int64_t chosen, const char* op) {
  RequireExtent(tokens, op, "tokens");
  if (tokens > std::numeric_limits<int32_t>::max() / chosen) {
    throw std::invalid_argument(std::string(op) + ": " + std::to_string(tokens) + " tokens of " +
                                std::to_string(chosen) + " rows, places are below 2147483648");
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_TOKEN_ROWS_CUH_
