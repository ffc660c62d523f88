// Gradient of a bias: the column sums of the output's gradient. (The bias itself is added by Gemm.)
#ifndef COXSWAIN_KERNELS_PRODUCTS_BIAS_H_
#define COXSWAIN_KERNELS_PRODUCTS_BIAS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct BiasSpec {
  DType dtype = DType::kFloat32;       // dy
  DType grad_dtype = DType::kFloat32;  // dbias
};
bool BiasSupports(const BiasSpec& spec);

int64_t BiasBackwardWorkspaceBytes(const BiasSpec& spec, int64_t rows, int64_t columns);

struct BiasBackwardArgs {
  BiasSpec spec = {};
  int64_t rows = 0;
  int64_t columns = 0;       // N
  const void* dy = nullptr;  // [rows, N]
  int64_t ldy = 0;           // elements between rows, >= N
  void* dbias = nullptr;     // [N], accumulated
  Workspace workspace = {};
};
void BiasBackward(const BiasBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_BIAS_H_
