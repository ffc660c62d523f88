// Gate and up of a mixture's experts with the gate behind them: which body. Where the fused one
// runs it is taken: it does the products of grouped_product.cu tile by tile, and no less.
#include "kernels/experts/grouped_gated_linear.h"

#include "kernels/cuda/experts/grouped_gated_product.h"
#include "kernels/cuda/stream.h"
#include "kernels/experts/plain_grouped_gated_linear.h"

namespace coxswain::kernels {

bool GroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec) {
  return PlainGroupedGatedLinearSupports(spec);
}

void GroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(GroupedGatedLinearSupports(args.spec), "GroupedGatedLinearForward");
  cuda::RequireExtent(args.rows, "GroupedGatedLinearForward", "rows");
  if (args.rows == 0) return;
  if (cuda::GroupedGatedProductRuns(args)) {
    cuda::GroupedGatedProduct(args, stream);
  } else {
    PlainGroupedGatedLinearForward(args, stream);
  }
}

}  // namespace coxswain::kernels
