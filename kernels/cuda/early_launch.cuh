// Kernels that start before the one ahead of them in the stream has ended, where compute capability
// 9.0 allows it: their blocks take what that one's leave, and wait for its end themselves. Source:
// CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
#ifndef COXSWAIN_KERNELS_CUDA_EARLY_LAUNCH_CUH_
#define COXSWAIN_KERNELS_CUDA_EARLY_LAUNCH_CUH_

#include <cstddef>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {

// Lets the kernel behind start once every block of this one has called it or ended.
__device__ __forceinline__ void LetNextStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel ahead has ended and what it wrote can be read. Every thread calls it, before it
// touches memory of the device or returns: a kernel none of whose threads waits could end before
// the one ahead, and what comes next would not wait for that one.
__device__ __forceinline__ void WaitForPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Launches a kernel that calls WaitForPrevious.
template <typename Kernel, typename... Args>
void LaunchEarly(Kernel kernel, dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                 const char* op, const Args&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = Capability() >= 90 ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, args...), op);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EARLY_LAUNCH_CUH_
