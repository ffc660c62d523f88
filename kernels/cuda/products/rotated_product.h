// rotated_linear.h in one launch, for bfloat16 on compute capability 9.0.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_ROTATED_PRODUCT_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_ROTATED_PRODUCT_H_

#include "kernels/products/rotated_linear.h"

namespace coxswain::kernels::cuda {

// bfloat16, compute capability 9.0, K a multiple of 8, heads of 64, 128 or 256 that turn whole, in
// halves and without a scale, addresses aligned to 16 bytes.
bool RotatedProductRuns(const RotatedLinearArgs& args);

// No workspace.
void RotatedProduct(const RotatedLinearArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_ROTATED_PRODUCT_H_
