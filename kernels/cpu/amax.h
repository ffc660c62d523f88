// The largest size of stored elements, as bits of integers: of numbers it is the largest, infinity
// is above all of them and NaN above infinity.
#ifndef COXSWAIN_KERNELS_CPU_AMAX_H_
#define COXSWAIN_KERNELS_CPU_AMAX_H_

#include <cstdint>

namespace coxswain::kernels::cpu {

// The bits of |x| of the largest of n elements; 0 of none.
uint32_t LargestBits(const float* x, int64_t n);

// Raises *amax to the largest of `n` stored elements. Other threads may raise it at the same time.
// Null: not wanted.
void RaiseAmax(const float* stored, int64_t n, float* amax);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_AMAX_H_
