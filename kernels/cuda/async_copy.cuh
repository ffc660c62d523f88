// Copies of a thread from global to shared memory in the background, waited for in groups. Source:
// PTX ISA, "cp.async".
#ifndef COXSWAIN_KERNELS_CUDA_ASYNC_COPY_CUH_
#define COXSWAIN_KERNELS_CUDA_ASYNC_COPY_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

// 16 bytes; zeros when not `valid`, and then `from` is not read.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
// The same of 8 and of 4 bytes.
__device__ __forceinline__ void CopyAsync8(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 8 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsync4(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kPending of the thread's groups are still under way; a barrier shows what they
// brought to the other threads.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ASYNC_COPY_CUH_
