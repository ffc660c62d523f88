// The row in which a backward that works in place makes its gradient.
#ifndef COXSWAIN_KERNELS_CPU_NORMS_GRADIENT_ROW_H_
#define COXSWAIN_KERNELS_CPU_NORMS_GRADIENT_ROW_H_

#include <algorithm>
#include <cstdint>

namespace coxswain::kernels::cpu {

// Row `row` of `values`, rows of `columns` float32; where `gradient` is not null its row, which
// then holds those values.
inline float* RowForGradient(void* values, void* gradient, int64_t row, int64_t columns) {
  float* held = static_cast<float*>(values) + row * columns;
  if (gradient == nullptr) return held;
  float* made = static_cast<float*>(gradient) + row * columns;
  std::copy_n(held, columns, made);
  return made;
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_NORMS_GRADIENT_ROW_H_
