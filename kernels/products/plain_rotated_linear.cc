#include "kernels/products/plain_rotated_linear.h"

#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

GemmSpec ProductSpec(const RopeSpec& rope) {
  return {.dtype = rope.dtype, .output_dtype = rope.dtype, .transpose_b = true};
}

}  // namespace

bool PlainRotatedLinearSupports(const RotatedLinearSpec& spec) {
  return spec.in_features > 0 && RopeSupports(spec.rope) && GemmSupports(ProductSpec(spec.rope));
}

void PlainRotatedLinearForward(const RotatedLinearArgs& args, Stream* stream) {
  const RopeSpec& spec = args.rope.spec;
  const int64_t columns = (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim;
  Gemm({.spec = ProductSpec(spec),
        .m = args.rope.tokens,
        .n = columns,
        .k = args.in_features,
        .a = args.x,
        .lda = args.in_features,
        .b = args.weight,
        .ldb = args.in_features,
        .c = args.rope.qkv,
        .ldc = columns,
        .bias = args.bias,
        .workspace = args.workspace},
       stream);
  RopeForward(args.rope, stream);
}

}  // namespace coxswain::kernels
