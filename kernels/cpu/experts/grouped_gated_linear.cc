#include "kernels/experts/grouped_gated_linear.h"

#include "kernels/cpu/check.h"
#include "kernels/experts/plain_grouped_gated_linear.h"

namespace coxswain::kernels {

bool GroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec) {
  return PlainGroupedGatedLinearSupports(spec);
}

void GroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(GroupedGatedLinearSupports(args.spec), "GroupedGatedLinear");
  PlainGroupedGatedLinearForward(args, stream);
}

}  // namespace coxswain::kernels
