#include "kernels/products/gated_linear.h"

#include "kernels/cpu/check.h"
#include "kernels/products/plain_gated_linear.h"

namespace coxswain::kernels {

bool GatedLinearSupports(const GatedLinearSpec& spec) { return PlainGatedLinearSupports(spec); }

void GatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GatedLinearSupports(args.spec), "GatedLinear");
  PlainGatedLinearForward(args, stream);
}

void GatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GatedLinearSupports(args.spec), "GatedLinear");
  PlainGatedLinearBackward(args, stream);
}

}  // namespace coxswain::kernels
