// Where an object lies in shared memory, as PTX names it.
#ifndef COXSWAIN_KERNELS_CUDA_SHARED_ADDRESS_CUH_
#define COXSWAIN_KERNELS_CUDA_SHARED_ADDRESS_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_SHARED_ADDRESS_CUH_
