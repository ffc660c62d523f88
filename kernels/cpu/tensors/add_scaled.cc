#include "kernels/cpu/tensors/add_scaled.h"

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

COXSWAIN_VECTORIZE void AddScaled(float alpha, const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += alpha * x[i];
}

}  // namespace coxswain::kernels::cpu
