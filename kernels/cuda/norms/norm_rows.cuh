// Rows of a normalisation held in registers: which threads own a row, which of its 16-byte vectors
// each of them holds, and the launches. Shared by rms_norm_rows.cuh
// and layer_norm.cu.
#ifndef COXSWAIN_KERNELS_CUDA_NORMS_NORM_ROWS_CUH_
#define COXSWAIN_KERNELS_CUDA_NORMS_NORM_ROWS_CUH_

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles/row_ring.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// Threads of a block whose warps have a row each.
inline constexpr int kForwardThreads = 128;
inline constexpr int kBackwardThreads = 256;
// Of a block that walks a row element by element.
inline constexpr int kLoopThreads = 512;

// Every thread holds up to `vectors_per_thread` vectors of a row. kWarpPerRow: each warp of the
// block has a row of its own; otherwise the block has one row.
template <int vectors_per_thread, bool warp_per_row>
struct RowOwner {
  static constexpr int kVectors = vectors_per_thread;
  static constexpr bool kWarpPerRow = warp_per_row;
  // Backward: threads that a multiprocessor holds at once, by registers (128 or 80 each), and of a
  // block at most.
  static constexpr int kResidentThreads = kWarpPerRow || kVectors > 2 ? 512 : 768;
  static constexpr int kMaxThreads =
      kWarpPerRow ? kBackwardThreads : (kVectors > 2 ? kResidentThreads : kResidentThreads / 2);
  // Vectors of the longest row.
  static constexpr int64_t kMaxVectors = int64_t{kVectors} * (kWarpPerRow ? kWarp : kMaxThreads);

  // Index in the row of this thread's vector i.
  static __device__ __forceinline__ int Index(int i) {
    return kWarpPerRow ? static_cast<int>(threadIdx.x) % kWarp + i * kWarp
                       : static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
  }
  static __device__ __forceinline__ int64_t FirstRow() {
    return kWarpPerRow ? int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp
                       : int64_t{blockIdx.x};
  }
  // Rows that the whole grid owns at once.
  static __device__ __forceinline__ int64_t RowStep() {
    return kWarpPerRow ? int64_t{gridDim.x} * (blockDim.x / kWarp) : int64_t{gridDim.x};
  }
  // Over the row, the same in each of its threads. `shared` holds 32 floats.
  static __device__ __forceinline__ float Sum(float x, float* shared) {
    return kWarpPerRow ? WarpSum(x) : BlockSum(x, shared);
  }

  // Threads of a block; `warp_threads` where its warps have a row each.
  static int Threads(int64_t vectors, int warp_threads) {
    if (kWarpPerRow) return warp_threads;
    return static_cast<int>(CeilDiv(CeilDiv(vectors, kVectors), kWarp)) * kWarp;
  }
};

// Calls fn with the owner of rows of that many vectors, up to RowOwner<kMost, false>::kMaxVectors.
// kMost: vectors per thread at most, 2 or 4.
template <int kMost, typename Fn>
void ForOwner(int64_t vectors, const Fn& fn) {
  static_assert(kMost == 2 || kMost == 4);
  if (vectors <= RowOwner<1, true>::kMaxVectors) {
    fn(RowOwner<1, true>{});
  } else if (vectors <= RowOwner<2, true>::kMaxVectors) {
    fn(RowOwner<2, true>{});
  } else if (kMost == 4 && vectors <= RowOwner<kMost, true>::kMaxVectors) {
    fn(RowOwner<kMost, true>{});
  } else if (vectors <= RowOwner<2, false>::kMaxVectors) {
    fn(RowOwner<2, false>{});
  } else {
    fn(RowOwner<kMost, false>{});
  }
}

struct BackwardGrid {
  int threads = kLoopThreads;
  int64_t blocks = 0;
};

// Of type and extents alone, because the workspace is sized by it: rows that turn out to be
// unaligned get the same number of blocks. All blocks are resident at once.
template <int kMost>
BackwardGrid PlanBackward(DType dtype, int64_t hidden, int64_t rows) {
  const int64_t vectors = CeilDiv(hidden * DTypeBytes(dtype), 16);
  BackwardGrid grid;
  int64_t rows_per_block = 1, per_multiprocessor = 1;
  if (vectors <= RowOwner<kMost, false>::kMaxVectors) {
    ForOwner<kMost>(vectors, [&](auto owner) {
      grid.threads = owner.Threads(vectors, kBackwardThreads);
      per_multiprocessor = owner.kResidentThreads / grid.threads;
      if (owner.kWarpPerRow) rows_per_block = grid.threads / kWarp;
    });
  }
  grid.blocks = std::min(
      {CeilDiv(rows, rows_per_block), kMaxPartials, per_multiprocessor * Multiprocessors()});
  return grid;
}

// Whether rows of `hidden` elements at each of `data` have an owner; null: has one.
template <typename T, int kMost>
bool OwnerHolds(int64_t hidden, std::initializer_list<const void*> data) {
  return hidden / kVector<T> <= RowOwner<kMost, false>::kMaxVectors && AllAligned<T>(data, hidden);
}

// A forward over args.rows rows of args.hidden elements at each of `data`: held(owner) is the
// kernel of rows that an owner holds, `looped` the one of a block that walks a row.
template <typename T, int kMost, class Args, class Held>
void LaunchForwardRows(const Args& args, std::initializer_list<const void*> data, const Held& held,
                       void (*looped)(Args), cudaStream_t stream) {
  if (!OwnerHolds<T, kMost>(args.hidden, data)) {
    looped<<<static_cast<unsigned>(args.rows), kLoopThreads, 0, stream>>>(args);
    return;
  }
  const int64_t vectors = args.hidden / kVector<T>;
  ForOwner<kMost>(vectors, [&](auto owner) {
    const int threads = owner.Threads(vectors, kForwardThreads);
    const int64_t blocks = owner.kWarpPerRow ? CeilDiv(args.rows, threads / kWarp) : args.rows;
    const auto kernel = held(owner);
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(args);
  });
}

// What StoreBlockSums puts the sums of the warps into: a line of lanes per (i, e), 4 floats longer,
// so that reading by column meets every bank.
inline constexpr int kSumsLine = kWarp + 4;
template <typename T, class Owner>
inline constexpr int kBlockSumsFloats =
    Owner::kWarpPerRow ? kBackwardThreads / kWarp* Owner::kVectors* kVector<T>* kSumsLine : 0;

// Bytes of dynamic shared memory of a backward: its ring, and then the sums of StoreBlockSums.
template <typename T, class Owner>
int BackwardSharedBytes(int threads, int stages, int tensors) {
  const int ring = stages * tensors * Owner::kVectors * threads * static_cast<int>(sizeof(uint4));
  return std::max(ring, kBlockSumsFloats<T, Owner> * static_cast<int>(sizeof(float)));
}

// The same of a backward, whose blocks PlanBackward<kMost> counted. Its kernels take args and the
// stages of their ring of 2 tensors, 3 where args.accumulate: as many as all the blocks of a
// multiprocessor have room for.
template <typename T, int kMost, class Args, class Held>
void LaunchBackwardRows(const Args& args, std::initializer_list<const void*> data,
                        const BackwardGrid& grid, const Held& held, void (*looped)(Args),
                        cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(grid.blocks);
  if (!OwnerHolds<T, kMost>(args.hidden, data)) {
    looped<<<blocks, kLoopThreads, 0, stream>>>(args);
    return;
  }
  ForOwner<kMost>(args.hidden / kVector<T>, [&](auto owner) {
    using Owner = decltype(owner);
    constexpr int kReserved = 1024 + kWarp * 4;  // of a block, by the system and for BlockSum
    const int room =
        SharedMemoryOfMultiprocessor() / (Owner::kResidentThreads / grid.threads) - kReserved;
    const int tensors = args.accumulate ? 3 : 2;
    int bytes = BackwardSharedBytes<T, Owner>(grid.threads, kRingStages, tensors), stages = 2;
    if (bytes > room) {
      bytes = BackwardSharedBytes<T, Owner>(grid.threads, 1, tensors), stages = 1;
    }
    const auto kernel = held(owner);
    AllowSharedMemory(kernel, bytes, "norm backward");
    kernel<<<blocks, grid.threads, bytes, stream>>>(args, stages);
  });
}

__device__ __forceinline__ float Rstd(float squares, int64_t hidden, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(hidden) + eps);
}

// This thread's part of a row of `vectors` vectors, zero past the end. The row is read once.
template <class Owner, typename T>
__device__ __forceinline__ void LoadRow(const T* row, int vectors, uint4 (&raw)[Owner::kVectors]) {
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    const int v = Owner::Index(i);
    raw[i] = v < vectors ? __ldcs(reinterpret_cast<const uint4*>(row) + v) : uint4{0, 0, 0, 0};
  }
}

// The same for a vector that every row uses.
template <class Owner, typename T>
__device__ __forceinline__ void LoadWeight(const T* weight, int vectors,
                                           uint4 (&raw)[Owner::kVectors]) {
#pragma unroll
  for (int i = 0; i < Owner::kVectors; ++i) {
    const int v = Owner::Index(i);
    raw[i] = v < vectors ? __ldg(reinterpret_cast<const uint4*>(weight) + v) : uint4{0, 0, 0, 0};
  }
}

// Keeps the compiler from holding unpacked copies of `raw` in registers from before the call to
// after it: unpacking again is cheaper than the lost occupancy.
template <int kCount>
__device__ __forceinline__ void UnpackAgain(uint4 (&raw)[kCount]) {
#pragma unroll
  for (uint4& r : raw) asm("" : "+r"(r.x), "+r"(r.y), "+r"(r.z), "+r"(r.w));
}

// Writes the block's sums over its rows to out [vectors x kVector<T>]: the sums of its warps, added
// in their order. `shared` [kBlockSumsFloats] may hold what the threads have read.
template <class Owner, typename T>
__device__ __forceinline__ void StoreBlockSums(const float (&sums)[Owner::kVectors][kVector<T>],
                                               int vectors, float* shared, float* out) {
  if constexpr (Owner::kWarpPerRow) {
    constexpr int kOfWarp = kBlockSumsFloats<T, Owner> / (kBackwardThreads / kWarp);
    float* own = shared + threadIdx.x / kWarp * kOfWarp + threadIdx.x % kWarp;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) own[(i * kVector<T> + e) * kSumsLine] = sums[i][e];
    }
    __syncthreads();
    for (int column = threadIdx.x; column < vectors * kVector<T>; column += kBackwardThreads) {
      const int v = column / kVector<T>, e = column % kVector<T>;
      const int at = (v / kWarp * kVector<T> + e) * kSumsLine + v % kWarp;
      float sum = shared[at];
#pragma unroll
      for (int w = 1; w < kBackwardThreads / kWarp; ++w) sum += shared[w * kOfWarp + at];
      out[column] = sum;
    }
  } else {
#pragma unroll
    for (int i = 0; i < Owner::kVectors; ++i) {
      const int v = Owner::Index(i);
      if (v >= vectors) continue;
#pragma unroll
      for (int e = 0; e < kVector<T>; e += 4) {
        *reinterpret_cast<float4*>(out + int64_t{v} * kVector<T> + e) =
            float4{sums[i][e], sums[i][e + 1], sums[i][e + 2], sums[i][e + 3]};
      }
    }
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_NORMS_NORM_ROWS_CUH_
