// Where the documents of a packed batch lie: the document of a row, and tiles of rows that never
// cross from one document into the next.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_DOCUMENTS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_DOCUMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/reduce.cuh"

namespace coxswain::kernels::cuda {

// The largest i in [0, count) with key(i) <= value, given that key rises and key(0) <= value.
// All lanes of the warp call it with the same arguments: 32 probes a round.
template <typename Key>
__device__ __forceinline__ int WarpLastAtMost(int count, int value, const Key& key) {
  const int lane = threadIdx.x % kWarp;
  int low = 0, high = count;
  while (high - low > 1) {
    const int step = (high - low + kWarp - 1) / kWarp;
    const int probe = low + lane * step;
    const bool holds = probe < high && key(probe) <= value;
    low += (__popc(__ballot_sync(~0u, holds)) - 1) * step;
    high = min(high, low + step);
  }
  return low;
}

struct DocumentRows {
  int begin, end;  // rows of the batch
};

// The document that holds `row`. Documents of length 0 hold none.
__device__ __forceinline__ DocumentRows DocumentOfRow(const int32_t* cu_seqlens, int count,
                                                      int row) {
  const int i = WarpLastAtMost(count, row, [&](int d) { return cu_seqlens[d]; });
  return {cu_seqlens[i], cu_seqlens[i + 1]};
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_DOCUMENTS_CUH_
