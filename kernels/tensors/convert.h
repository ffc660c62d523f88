// Conversion between element types, to nearest even.
#ifndef COXSWAIN_KERNELS_TENSORS_CONVERT_H_
#define COXSWAIN_KERNELS_TENSORS_CONVERT_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// Both libraries convert between any two of DType.
struct ConvertArgs {
  DType from = DType::kFloat32;
  DType to = DType::kFloat32;
  int64_t count = 0;
  const void* in = nullptr;  // [count]
  void* out = nullptr;       // [count], overlaps not with in
};
void Convert(const ConvertArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_CONVERT_H_
