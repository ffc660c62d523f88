// y += alpha x, the loop behind every accumulation of rows.
#ifndef COXSWAIN_KERNELS_CPU_TENSORS_ADD_SCALED_H_
#define COXSWAIN_KERNELS_CPU_TENSORS_ADD_SCALED_H_

#include <cstdint>

namespace coxswain::kernels::cpu {

void AddScaled(float alpha, const float* x, float* y, int64_t n);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_TENSORS_ADD_SCALED_H_
