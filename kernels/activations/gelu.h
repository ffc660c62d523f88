// GELU of every element: y = gelu(x), in the tanh form or the erf form of geglu.h; dx = dy
// gelu'(x). Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016;
// torch.nn.functional.gelu.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_GELU_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_GELU_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GeluSpec {
  DType dtype = DType::kFloat32;
  int64_t columns = 0;  // C
  bool tanh = true;     // false: erf
};
bool GeluSupports(const GeluSpec& spec);

struct GeluForwardArgs {
  GeluSpec spec = {};
  int64_t rows = 0;         // T; T C may exceed 2^31
  const void* x = nullptr;  // [T, C]
  void* y = nullptr;        // [T, C]
};
void GeluForward(const GeluForwardArgs& args, Stream* stream);

struct GeluBackwardArgs {
  GeluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, C]
  void* x = nullptr;         // [T, C]
  void* gradient = nullptr;  // [T, C], of x; null: overwrites it
};
void GeluBackward(const GeluBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_GELU_H_
