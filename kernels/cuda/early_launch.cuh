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

// Until the kernel ahead has ended and what it wrote can be read: before a thread's first access to
// memory of the device.
__device__ __forceinline__ void WaitForPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid, block;
  int shared_bytes = 0;
  unsigned cluster = 1;  // blocks
};

// Launches a kernel that calls WaitForPrevious.
template <typename Kernel, typename... Args>
void LaunchEarly(Kernel kernel, const LaunchShape& shape, cudaStream_t stream, const char* op,
                 const Args&... args) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {shape.cluster, 1, 1};
  }
  if (Capability() >= 90) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  CheckCuda(cudaLaunchKernelEx(&config, kernel, args...), op);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EARLY_LAUNCH_CUH_
