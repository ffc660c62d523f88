// y = x W_e^T + b_e and dx = dy W_e over the rows of each expert, in one launch.
//
// row_product.cuh.
//
// The rows (2,048 of 2,048 values: 8 MiB) and the weights (1536 x 2048: 6 MiB) of the one or two
// experts that are worked on come from the L2 cache, and each from memory once. Of 128 such experts
// that is, at 2,048 rows each, 2.7 GB for 1.65 TFLOP: 0.6 ms of the copy's rate beside 2.9 ms at
// 560 TFLOP/s; at 512 rows, 1.3 GB for 0.41 TFLOP: 0.3 ms beside 0.9 ms at 450. A tile takes 32
// steps of 64 values of k, 12 where k is 768, and is stored during the next one's. 66 clusters take
// 93 tiles each at 2,048 rows, 23 or 24 at 512: 1 % and 3 % idle.
//
// Bytes: 2 per element of the result written. Bitwise deterministic: a sum runs over k in order, in
// one warpgroup; a row's bits do not depend on the other rows.
#include "kernels/cuda/experts/grouped_product.h"

#include "kernels/cuda/experts/row_product.cuh"

namespace coxswain::kernels::cuda {
namespace {

// A row product: `in` columns of the rows, `out` of the result.
struct RowProduct {
  const GroupedLinearSpec& spec;
  int64_t rows;
  const int32_t* offsets;
  const void *operand, *weight;
  void* result;
  int64_t in, out;
  bool zeros_behind;
};

template <bool kAcross, typename Terms>
void Launch(const RowProduct& p, Terms terms, const char* op, Stream* stream) {
  const int64_t k = p.spec.in_features, n = p.spec.out_features;
  const RowMaps maps{.rows = MakeTensorMap({p.operand, p.rows, p.in, p.in, kRowBox, kStoredDepth}),
                     .weight = MakeStackMap({p.weight, p.spec.experts, n, k, k, n * k,
                                             kAcross ? kStoredDepth : kHalfTileColumns}),
                     .result = MakeWindowMap(p.result, p.rows, p.out, p.out)};
  terms.columns = static_cast<int>(p.out);
  const RowGrid grid =
      MakeRowGrid(p.offsets, p.spec.experts, p.out, kTileColumns, p.in, kStoredDepth);
  LaunchProduct(RowProductKernel<kAcross, Terms>, kStoredSharedBytes, MostTiles(grid, p.rows),
                Handle(stream), op, maps, terms, grid,
                RowsBehind{p.zeros_behind ? static_cast<bf16*>(p.result) : nullptr, p.rows, p.out});
}

}  // namespace

bool GroupedProductTakes(const GroupedLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && spec.in_features % 8 == 0 &&
         spec.out_features % 8 == 0;
}

void GroupedProduct(const GroupedLinearForwardArgs& args, Stream* stream) {
  const RowProduct product{.spec = args.spec,
                           .rows = args.rows,
                           .offsets = args.offsets,
                           .operand = args.x,
                           .weight = args.weight,
                           .result = args.y,
                           .in = args.spec.in_features,
                           .out = args.spec.out_features,
                           .zeros_behind = args.zeros_behind};
  if (args.bias == nullptr) {
    Launch<false>(product, RowTerms<false>{}, "GroupedLinearForward", stream);
  } else {
    BiasedTerms terms = {};
    terms.bias = static_cast<const bf16*>(args.bias);
    Launch<false>(product, terms, "GroupedLinearForward", stream);
  }
}

void GroupedProduct(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  Launch<true>({.spec = args.spec,
                .rows = args.rows,
                .offsets = args.offsets,
                .operand = args.dy,
                .weight = args.weight,
                .result = args.dx,
                .in = args.spec.out_features,
                .out = args.spec.in_features,
                .zeros_behind = args.zeros_behind},
               RowTerms<true>{}, "GroupedLinearInputGradient", stream);
}

}  // namespace coxswain::kernels::cuda
