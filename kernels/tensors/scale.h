// x *= factor, in place; nothing is read or written where the factor is 1.
#ifndef COXSWAIN_KERNELS_TENSORS_SCALE_H_
#define COXSWAIN_KERNELS_TENSORS_SCALE_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct ScaleArgs {
  DType dtype = DType::kFloat32;  // of x
  int64_t count = 0;
  const float* factor = nullptr;  // one float in device memory
  void* x = nullptr;              // [count]
};
void Scale(const ScaleArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_SCALE_H_
