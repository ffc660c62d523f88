// Copies of boxes between global and shared memory by the copy engine, counted by mbarriers on the
// way in and by the issuing thread's groups on the way out: compute capability 9.0. A box is named
// by the coordinates (column, row) of its first element; what lies outside the tensor is read as
// zero and not written. Source: PTX ISA, "cp.async.bulk.tensor", "fence.proxy.async".
#ifndef COXSWAIN_KERNELS_CUDA_TILES_TMA_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_TMA_CUH_

#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/tensor_map.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace coxswain::kernels::cuda {

__device__ __forceinline__ uint64_t MapAddress(const TensorMap& map) {
  return reinterpret_cast<uint64_t>(&map);
}

// `barrier` must expect the bytes of the whole box.
__device__ __forceinline__ void LoadBox(void* to, const TensorMap& map, int column, int row,
                                        uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(SharedAddress(to)),
      "l"(MapAddress(map)), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
}
// A box of a tensor of three extents.
__device__ __forceinline__ void LoadBox(void* to, const TensorMap& map, int column, int row,
                                        int matrix, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4}], [%5];" ::"r"(SharedAddress(to)),
      "l"(MapAddress(map)), "r"(column), "r"(row), "r"(matrix), "r"(SharedAddress(barrier))
      : "memory");
}
// A box of MakeHeadMap.
__device__ __forceinline__ void LoadHeads(void* to, const TensorMap& map, int column, int head,
                                          int token, uint64_t* barrier) {
  LoadBox(to, map, column, head, token, barrier);
}
// To the same place in every block of the cluster whose bit is set in `blocks`, counted there by
// the barrier of the same place.
__device__ __forceinline__ void LoadBoxForAll(void* to, const TensorMap& map, int column, int row,
                                              uint64_t* barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(SharedAddress(to)),
      "l"(MapAddress(map)), "r"(column), "r"(row), "r"(SharedAddress(barrier)), "h"(blocks)
      : "memory");
}
// Likewise, a box of a tensor of three extents.
__device__ __forceinline__ void LoadBoxForAll(void* to, const TensorMap& map, int column, int row,
                                              int matrix, uint64_t* barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(SharedAddress(to)),
      "l"(MapAddress(map)), "r"(column), "r"(row), "r"(matrix), "r"(SharedAddress(barrier)),
      "h"(blocks)
      : "memory");
}
// By each thread that wrote shared memory, before the barrier after which the copy engine reads it.
__device__ __forceinline__ void PublishToCopies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Part of the thread's open group.
__device__ __forceinline__ void StoreBox(const TensorMap& map, int column, int row,
                                         const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          MapAddress(map)),
      "r"(column), "r"(row), "r"(SharedAddress(from))
      : "memory");
}
// Likewise, a box of a tensor of three extents.
__device__ __forceinline__ void StoreBox(const TensorMap& map, int column, int row, int matrix,
                                         const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          MapAddress(map)),
      "r"(column), "r"(row), "r"(matrix), "r"(SharedAddress(from))
      : "memory");
}
// The same, added to what is there, in the tensor's type: rounded to nearest. In float32, values
// below 2^-126 count as zero.
__device__ __forceinline__ void AddBox(const TensorMap& map, int column, int row, int matrix,
                                       const void* from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], "
      "[%4];" ::"l"(MapAddress(map)),
      "r"(column), "r"(row), "r"(matrix), "r"(SharedAddress(from))
      : "memory");
}
__device__ __forceinline__ void CloseGroup() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the shared memory of all but the thread's newest kOpen groups has been read.
template <int kOpen>
__device__ __forceinline__ void WaitUntilRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kOpen) : "memory");
}
// Until all groups of the thread are written.
__device__ __forceinline__ void WaitUntilWritten() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_TILES_TMA_CUH_
