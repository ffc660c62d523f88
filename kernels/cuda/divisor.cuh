// Division by a number that the host knows.
#ifndef COXSWAIN_KERNELS_CUDA_DIVISOR_CUH_
#define COXSWAIN_KERNELS_CUDA_DIVISOR_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

// n / divisor for n below 2^31, by one product. Source: Granlund and Montgomery, "Division by
// invariant integers using multiplication", PLDI 1994.
struct Divisor {
  uint32_t divisor, factor, shift;

  explicit Divisor(uint32_t d) : divisor(d), factor(0), shift(31) {
    while ((uint64_t{1} << (shift - 31)) < d) ++shift;
    factor = static_cast<uint32_t>((uint64_t{1} << shift) / d + 1);
  }
  __device__ __forceinline__ uint32_t Quotient(uint32_t n) const {
    return static_cast<uint32_t>(uint64_t{n} * factor >> shift);
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_DIVISOR_CUH_
