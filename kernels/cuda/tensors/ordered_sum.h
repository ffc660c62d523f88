// Sum of vectors of several ranks in rank order.
#ifndef COXSWAIN_KERNELS_CUDA_TENSORS_ORDERED_SUM_H_
#define COXSWAIN_KERNELS_CUDA_TENSORS_ORDERED_SUM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.h"

namespace coxswain::kernels {

constexpr int kMaxSummands = 16;

// out[i] = in[0][i] + in[1][i] + ..., from left to right in float32, rounded once to `dtype`; or
// total[i] += that sum, not rounded. Pointers are 16-byte aligned; `out` is one of `in` or overlaps
// none, `total` overlaps none.
struct OrderedSumArgs {
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  int summands = 0;  // 1 to kMaxSummands
  const void* in[kMaxSummands] = {};
  void* out = nullptr;
  float* total = nullptr;  // in place of `out`
};
void OrderedSum(const OrderedSumArgs& args, cudaStream_t stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_CUDA_TENSORS_ORDERED_SUM_H_
