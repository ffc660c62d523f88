// The plain forms of products with something beside them: one op after the other.
#ifndef COXSWAIN_KERNELS_PRODUCTS_PLAIN_PRODUCTS_H_
#define COXSWAIN_KERNELS_PRODUCTS_PLAIN_PRODUCTS_H_

#include "kernels/products/gated_linear.h"
#include "kernels/products/rotated_linear.h"

namespace coxswain::kernels {

// gated_linear.h as a product by gemm.h and an elementwise pass by gates.h: what every
// library can do, for every spec that those support.

bool PlainGatedLinearSupports(const GatedLinearSpec& spec);
void PlainGatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream);
void PlainGatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream);

// The pass alone. y = act(gate) up; null: nothing to do.
void PlainGate(const GatedLinearSpec& spec, int64_t rows, const void* gate_up, void* y,
               Stream* stream);
// dy and, in place, gate_up's gradient; dy becomes y where `wants_y`.
void PlainGateGradient(const GatedLinearSpec& spec, int64_t rows, void* dy, void* gate_up,
                       bool wants_y, Stream* stream);

// rotated_linear.h as a product by gemm.h and a pass by rope.h: what every library can do, for
// every spec that those support.

bool PlainRotatedLinearSupports(const RotatedLinearSpec& spec);
void PlainRotatedLinearForward(const RotatedLinearArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_PLAIN_PRODUCTS_H_
