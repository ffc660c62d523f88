// The gradient of a weight that is summed in bfloat16 over micro-steps: the product in float32, a
// range of its rows at a time, each then added by gradient_sum.h. Beside the product this writes
// and reads 4 bytes an element, and what AddToGradient moves.
#ifndef COXSWAIN_KERNELS_PRODUCTS_SUMMED_PRODUCT_H_
#define COXSWAIN_KERNELS_PRODUCTS_SUMMED_PRODUCT_H_

#include "kernels/device.h"
#include "kernels/products/gemm.h"
#include "kernels/tensors/gradient_sum.h"

namespace coxswain::kernels {

struct SummedProductArgs {
  GemmArgs product = {};  // C in bfloat16, in rows of n; beta 0 or 1; no addend, no bias
  GradientSum sum = {};
  Workspace term = {};  // at least 4 n bytes; its bytes decide the ranges
};
void SummedProduct(const SummedProductArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_SUMMED_PRODUCT_H_
