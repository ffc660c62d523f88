// C from sums that a product in FP8 left in float32, where the library adds neither bias nor Z.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_FP8_SUMS_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_FP8_SUMS_H_

#include "kernels/products/fp8_gemm.h"

namespace coxswain::kernels::cuda {

// C = sums + beta Z + bias of `rows` rows from `first` on. sums: [rows, n], aligned to 16 bytes.
void AddToSums(const Fp8GemmArgs& args, int64_t first, int64_t rows, const float* sums,
               Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_FP8_SUMS_H_
