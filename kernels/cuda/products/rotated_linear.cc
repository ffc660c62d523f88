// Queries, keys and values: which of the two bodies by table, then that one.
#include "kernels/products/rotated_linear.h"

#include <stdexcept>

#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/rotated_product.h"
#include "kernels/cuda/stream.h"
#include "kernels/products/plain_products.h"

namespace coxswain::kernels {

bool RotatedLinearSupports(const RotatedLinearSpec& spec) {
  return PlainRotatedLinearSupports(spec);
}

void RotatedLinearForward(const RotatedLinearArgs& args, Stream* stream) {
  const RopeSpec& spec = args.rope.spec;
  cuda::RequireSupported(RotatedLinearSupports({spec, args.in_features}), "RotatedLinear");
  cuda::RequireExtent(args.rope.tokens, "RotatedLinear", "tokens");
  if (stream == nullptr) throw std::invalid_argument("RotatedLinear: needs a stream");
  if (args.rope.tokens == 0) return;
  const cuda::RotatedKey key{.rows = args.rope.tokens,
                             .in = args.in_features,
                             .heads = spec.num_heads,
                             .kv_heads = spec.num_kv_heads,
                             .head_dim = spec.head_dim};
  cuda::LaunchFaster(
      cuda::RotatedProductRuns(args), key, [&] { cuda::RotatedProduct(args, stream); },
      [&] { PlainRotatedLinearForward(args, stream); }, stream);
}

}  // namespace coxswain::kernels
