// rotated_linear.h as a product by gemm.h and a pass by rope.h: what every library can do, for
// every spec that those support.
#ifndef COXSWAIN_KERNELS_PRODUCTS_PLAIN_ROTATED_LINEAR_H_
#define COXSWAIN_KERNELS_PRODUCTS_PLAIN_ROTATED_LINEAR_H_

#include "kernels/products/rotated_linear.h"

namespace coxswain::kernels {

bool PlainRotatedLinearSupports(const RotatedLinearSpec& spec);
void PlainRotatedLinearForward(const RotatedLinearArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_PLAIN_ROTATED_LINEAR_H_
