// Walking the lists of tensors of adamw.h, adamw_8bit.h and global_norm.h: one block per chunk.
#ifndef COXSWAIN_KERNELS_CUDA_TENSOR_LIST_CUH_
#define COXSWAIN_KERNELS_CUDA_TENSOR_LIST_CUH_

#include <cstdint>

#include "kernels/cuda/reduce.cuh"
#include "kernels/optimizer/adamw.h"

namespace coxswain::kernels::cuda {

template <typename Tensor>
__device__ __forceinline__ int64_t FirstChunk(const Tensor& tensor) {
  return tensor.first_chunk;
}
__device__ __forceinline__ int64_t FirstChunk(const AdamW8bitTensor& tensor) {
  return tensor.tensor.first_chunk;
}

// Index of the tensor that holds chunk `chunk` of the list, counted from its first tensor's first
// chunk. By a whole warp, 32 candidates at a time; the same in every lane. Tensors without elements
// hold no chunk: of those that begin at one chunk the last is the one with elements.
template <typename Tensor>
__device__ __forceinline__ int64_t FindTensor(const Tensor* tensors, int64_t count, int64_t chunk) {
  const int64_t wanted = FirstChunk(tensors[0]) + chunk;
  const int lane = threadIdx.x % kWarp;
  int64_t first = 0;  // it begins at or before wanted, the answer is in [first, first + n)
  for (int64_t n = count; n > 1;) {
    const int64_t step = (n + kWarp - 1) / kWarp, candidate = lane * step;
    const bool begun = candidate < n && FirstChunk(tensors[first + candidate]) <= wanted;
    const int64_t last = (kWarp - 1 - __clz(static_cast<int>(__ballot_sync(~0u, begun)))) * step;
    first += last;
    n = n - last < step ? n - last : step;
  }
  return first;
}

// First and past-the-last element of a chunk of a tensor of `elements`.
struct ChunkRange {
  int64_t begin, end;

  __device__ __forceinline__ ChunkRange(int64_t chunk_of_tensor, int64_t elements) {
    begin = chunk_of_tensor * kTensorChunk;
    end = begin + kTensorChunk < elements ? begin + kTensorChunk : elements;
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TENSOR_LIST_CUH_
