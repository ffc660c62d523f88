// y = s_x s_e x W_e^T + b_e over the rows of each expert, of operands in FP8, in one launch.
//
// row_product.cuh with products of codes (product_tiles.cuh, OfCodes): rows of Fp8Stride(k) bytes
// are brought as rows of half as many values of bfloat16, so that stages, boxes and steps are those
// of grouped_product.cu at half the values of k. The zeros behind k add nothing. Sums stay in the
// tensor cores' registers to the end, then are multiplied by both scales, one after the other.
//
// A step of 64 KiB of operands is 128 values of k: half as many bytes from the L2 cache and half as
// many instructions as in bfloat16, whose tiles take twice the steps.
// Bytes: 2 per element of the result written; 1 per element of operands, mostly from the L2 cache.
// Bitwise deterministic: a sum runs over k in order, in one warpgroup; a row's bits do not depend
// on the other rows.
#include "kernels/experts/grouped_fp8_linear.h"

#include "kernels/cuda/experts/row_product.cuh"
#include "kernels/cuda/products/fused_choice.h"

namespace coxswain::kernels {
namespace cuda {
namespace {

struct CodeTerms : BiasedTerms {
  const float *row_scale, *weight_scales;  // one; [experts]

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float2 Factors(const RowTile& tile) const {
    return {__ldg(row_scale), __ldg(weight_scales + tile.expert)};
  }
#endif
};

template <bool kE5M2>
void Launch(const GroupedFp8LinearArgs& args, Stream* stream) {
  const int64_t n = args.spec.out_features, experts = args.spec.experts;
  const int64_t pairs = Fp8Stride(args.spec.in_features) / kBf16Bytes;  // of codes in a row
  const RowMaps maps{
      .rows = MakeTensorMap({args.x, args.rows, pairs, pairs, kRowBox, kStoredDepth}),
      .weight = MakeStackMap({args.weight, experts, n, pairs, pairs, n * pairs, kHalfTileColumns}),
      .result = MakeWindowMap(args.y, args.rows, n, n)};
  CodeTerms terms = {};
  terms.columns = static_cast<int>(n);
  terms.bias = static_cast<const bf16*>(args.bias);
  terms.row_scale = args.x_scale;
  terms.weight_scales = args.weight_scales;
  const RowGrid grid = MakeRowGrid(args.offsets, experts, n, kTileColumns, pairs, kStoredDepth);
  LaunchProduct(RowProductKernel<false, CodeTerms, OfCodes<kE5M2>>, kStoredSharedBytes,
                MostTiles(grid, args.rows), Handle(stream), "GroupedFp8Linear", maps, terms, grid,
                RowsBehind{static_cast<bf16*>(args.y), args.rows, n});
}

}  // namespace
}  // namespace cuda

bool GroupedFp8LinearSupports(const GroupedFp8LinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && cuda::Capability() == 90 && spec.experts > 0 &&
         spec.in_features > 0 && spec.out_features > 0 && spec.out_features % 8 == 0;
}

int64_t GroupedFp8LinearWorkspaceBytes(const GroupedFp8LinearSpec& spec, int64_t rows) { return 0; }

void GroupedFp8Linear(const GroupedFp8LinearArgs& args, Stream* stream) {
  cuda::RequireSupported(GroupedFp8LinearSupports(args.spec), "GroupedFp8Linear");
  cuda::RequireExtent(args.rows, "GroupedFp8Linear", "rows");
  if (args.rows == 0) return;
  if (!cuda::AllAligned(args.x, args.weight, args.y)) {
    throw std::invalid_argument("GroupedFp8Linear: x, weight and y must be aligned to 16 bytes");
  }
  if (args.spec.row_format == Fp8Format::kE5M2) {
    cuda::Launch<true>(args, stream);
  } else {
    cuda::Launch<false>(args, stream);
  }
}

}  // namespace coxswain::kernels
