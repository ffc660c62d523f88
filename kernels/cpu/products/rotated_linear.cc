#include "kernels/products/rotated_linear.h"

#include "kernels/cpu/check.h"
#include "kernels/products/plain_rotated_linear.h"

namespace coxswain::kernels {

bool RotatedLinearSupports(const RotatedLinearSpec& spec) {
  return PlainRotatedLinearSupports(spec);
}

void RotatedLinearForward(const RotatedLinearArgs& args, Stream* stream) {
  cpu::RequireSupported(RotatedLinearSupports({args.rope.spec, args.in_features}), "RotatedLinear");
  PlainRotatedLinearForward(args, stream);
}

}  // namespace coxswain::kernels
