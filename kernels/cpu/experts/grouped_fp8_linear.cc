// One product by fp8_gemm.h per expert that has rows. The offsets are in host memory here.
#include "kernels/experts/grouped_fp8_linear.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/products/fp8_gemm.h"

namespace coxswain::kernels {
namespace {

Fp8GemmSpec SpecOf(const GroupedFp8LinearSpec& spec) {
  return {.output_dtype = spec.dtype, .bias_dtype = spec.dtype, .a_format = spec.row_format};
}

void MultiplyRows(const GroupedFp8LinearArgs& args, int64_t e, Stream* stream) {
  const int64_t k = args.spec.in_features, n = args.spec.out_features, stride = Fp8Stride(k);
  const int64_t first = args.offsets[e], count = args.offsets[e + 1] - first;
  if (count == 0) return;
  const float* const bias = static_cast<const float*>(args.bias);
  Fp8Gemm({.spec = SpecOf(args.spec),
           .m = count,
           .n = n,
           .k = k,
           .a = args.x + first * stride,
           .a_scales = args.x_scale,
           .b = args.weight + e * n * stride,
           .b_scales = args.weight_scales + e,
           .c = static_cast<float*>(args.y) + first * n,
           .ldc = n,
           .bias = bias == nullptr ? nullptr : bias + e * n,
           .workspace = args.workspace},
          stream);
}

}  // namespace

bool GroupedFp8LinearSupports(const GroupedFp8LinearSpec& spec) {
  return spec.experts > 0 && spec.in_features > 0 && spec.out_features > 0 &&
         Fp8GemmSupports(SpecOf(spec));
}

int64_t GroupedFp8LinearWorkspaceBytes(const GroupedFp8LinearSpec& spec, int64_t rows) {
  return Fp8GemmWorkspaceBytes(SpecOf(spec), rows, spec.out_features, spec.in_features);
}

void GroupedFp8Linear(const GroupedFp8LinearArgs& args, Stream* stream) {
  cpu::RequireSupported(GroupedFp8LinearSupports(args.spec), "GroupedFp8Linear");
  cpu::RequireExtent(args.rows, "GroupedFp8Linear", "rows");
  cpu::RequireOffsets(args.offsets, args.spec.experts, args.rows, "GroupedFp8Linear");
  cpu::RequireWorkspace(args.workspace, GroupedFp8LinearWorkspaceBytes(args.spec, args.rows),
                        "GroupedFp8Linear");
  for (int64_t e = 0; e < args.spec.experts; ++e) MultiplyRows(args, e, stream);
  const int64_t n = args.spec.out_features;
  float* const y = static_cast<float*>(args.y);
  std::fill(y + args.offsets[args.spec.experts] * n, y + args.rows * n, 0.0f);
}

}  // namespace coxswain::kernels
