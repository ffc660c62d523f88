// Blocks of a cluster, mbarriers, and copies and pushes into shared memory that an mbarrier counts:
// compute capability 9.0. Source: PTX ISA, "mbarrier", "cp.async.bulk", "st.async".
#ifndef COXSWAIN_KERNELS_CUDA_TILES_CLUSTER_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_CLUSTER_CUH_

#include <cstdint>

#include "kernels/cuda/shared_address.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace coxswain::kernels::cuda {

__device__ __forceinline__ unsigned ClusterRank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ unsigned ClusterSize() {
  unsigned size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
// By all threads of the cluster, together or not.
__device__ __forceinline__ void ClusterBarrier() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

// A phase ends with that many arrivals and all bytes expected.
__device__ __forceinline__ void InitBarrier(uint64_t* barrier, unsigned arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
// The initialised barriers can be seen by the cluster (once it has met) and by copies.
__device__ __forceinline__ void PublishBarriers() {
  asm volatile(
      "fence.mbarrier_init.release.cluster;\n"
      "fence.proxy.async;" ::
          : "memory");
}
__device__ __forceinline__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier))
               : "memory");
}
// At the barrier of the same place in the block `rank` of this cluster. Releases to this block
// only, which is enough where nothing but reads came before.
__device__ __forceinline__ void ArriveAt(uint64_t* barrier, unsigned rank) {
  asm volatile(
      "{ .reg .u32 at;\n"
      "  mapa.shared::cluster.u32 at, %0, %1;\n"
      "  mbarrier.arrive.release.cta.shared::cluster.b64 _, [at]; }" ::"r"(SharedAddress(barrier)),
      "r"(rank)
      : "memory");
}
// Arrives when what the thread copied by async_copy.cuh has come.
__device__ __forceinline__ void ArriveAfterCopies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(SharedAddress(barrier))
               : "memory");
}
// Arrives; the phase ends when `bytes` have come.
__device__ __forceinline__ void ExpectBytes(uint64_t* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void WaitForPhase(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred ended;\n"
      "again:\n"
      "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
      "  @!ended bra again; }" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
// The same where the phase counts nothing but copies and threads of this block: leaves the L1 cache
// as it is.
__device__ __forceinline__ void WaitForOwnPhase(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred ended;\n"
      "again:\n"
      "  mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 ended, [%0], %1;\n"
      "  @!ended bra again; }" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void CopyToShared(void* to, const void* from, unsigned bytes,
                                             uint64_t* barrier) {
  ExpectBytes(barrier, bytes);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
// *to of the block `rank` of this cluster becomes `value`, and its `barrier` counts the 16 bytes.
__device__ __forceinline__ void Push(void* to, uint64_t* barrier, unsigned rank,
                                     const float4& value) {
  asm volatile(
      "{ .reg .u32 to, barrier;\n"
      "  mapa.shared::cluster.u32 to, %0, %2;\n"
      "  mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "  st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%3, %4, %5, %6}, "
      "[barrier]; }" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_TILES_CLUSTER_CUH_
