// y += alpha x.
#ifndef COXSWAIN_KERNELS_TENSORS_ADD_H_
#define COXSWAIN_KERNELS_TENSORS_ADD_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct AddArgs {
  DType dtype = DType::kFloat32;    // of y
  DType x_dtype = DType::kFloat32;  // that of y, or bfloat16
  int64_t count = 0;
  float alpha = 1.0f;
  const void* x = nullptr;  // [count]
  void* y = nullptr;        // [count]
};
void Add(const AddArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_ADD_H_
