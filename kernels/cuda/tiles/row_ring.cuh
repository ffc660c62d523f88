// Rows on their way from memory into the shared memory of the threads that own them, so that the
// next rows of a backward arrive while one is reduced, at the cost of no register. A thread copies
// what it reads itself: no barrier.
#ifndef COXSWAIN_KERNELS_CUDA_TILES_ROW_RING_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_ROW_RING_CUH_

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/shared_address.cuh"

namespace coxswain::kernels::cuda {

// Stages of a ring, each a row of each tensor. With one the copies of a row begin when the row
// before has been used up.
inline constexpr int kRingStages = 2;

// Owner: norm_rows.cuh. memory [stages, tensors, Owner::kVectors, blockDim.x] vectors.
template <class Owner>
struct RowRing {
  uint4* memory;
  int stages, tensors;
  int vectors;  // of a row

  // This thread's part of a row, zeros past the end.
  template <typename T>
  __device__ __forceinline__ void Fetch(int stage, int tensor, const T* row) const {
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      const int v = Owner::Index(i);
      const bool valid = v < vectors;
      CopyAsync16(SharedAddress(At(stage, tensor, i)),
                  reinterpret_cast<const uint4*>(row) + (valid ? v : 0), valid);
    }
  }
  __device__ __forceinline__ uint4 Read(int stage, int tensor, int i) const {
    return *At(stage, tensor, i);
  }

  // Calls fetch(row, stage) for the owner's rows, each ahead of use(row, stage).
  template <typename Fetch, typename Use>
  __device__ __forceinline__ void Walk(int64_t rows, const Fetch& fetch, const Use& use) const {
    const int64_t step = Owner::RowStep();
    const auto begin = [&](int64_t row, int stage) {
      if (row < rows) fetch(row, stage);
    };
    const int other = stages - 1;  // 1: the stages take turns
    begin(Owner::FirstRow(), 0);
    CommitCopies();
    int stage = 0;
    for (int64_t row = Owner::FirstRow(); row < rows; row += step, stage ^= other) {
      if (stages == kRingStages) {
        begin(row + step, stage ^ other);
        CommitCopies();
        WaitForCopies<1>();  // those of the next row may be under way
      } else {
        CommitCopies();
        WaitForCopies<0>();
      }
      use(row, stage);
      if (stages < kRingStages) begin(row + step, stage);
    }
  }

 private:
  __device__ __forceinline__ uint4* At(int stage, int tensor, int i) const {
    const int line = (stage * tensors + tensor) * Owner::kVectors + i;
    return memory + line * static_cast<int>(blockDim.x) + threadIdx.x;
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TILES_ROW_RING_CUH_
