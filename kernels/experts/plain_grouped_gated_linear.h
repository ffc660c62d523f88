// grouped_gated_linear.h as the two ops: what every library can do, for every spec that those
// support.
#ifndef COXSWAIN_KERNELS_EXPERTS_PLAIN_GROUPED_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_EXPERTS_PLAIN_GROUPED_GATED_LINEAR_H_

#include "kernels/experts/grouped_gated_linear.h"

namespace coxswain::kernels {

bool PlainGroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec);
void PlainGroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_PLAIN_GROUPED_GATED_LINEAR_H_
