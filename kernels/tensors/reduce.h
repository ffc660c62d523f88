// Sum of float32 values in double precision, in a fixed order.
#ifndef COXSWAIN_KERNELS_TENSORS_REDUCE_H_
#define COXSWAIN_KERNELS_TENSORS_REDUCE_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

struct SumArgs {
  int64_t count = 0;
  const float* values = nullptr;  // [count]
  double* sum = nullptr;          // one double in device memory
  bool accumulate = false;        // *sum += instead of *sum =
};
void Sum(const SumArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_REDUCE_H_
