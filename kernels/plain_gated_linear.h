// gated_linear.h as a product by gemm.h and an elementwise pass by swiglu.h or geglu.h: what every
// library can do, for every spec that those support.
#ifndef COXSWAIN_KERNELS_PLAIN_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_PLAIN_GATED_LINEAR_H_

#include "kernels/gated_linear.h"

namespace coxswain::kernels {

bool PlainGatedLinearSupports(const GatedLinearSpec& spec);
void PlainGatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream);
void PlainGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PLAIN_GATED_LINEAR_H_
