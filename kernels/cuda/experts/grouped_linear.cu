// The linears of a mixture's experts: which body, and the gradient of their biases.
//
// bfloat16 on compute capability 9.0 takes grouped_product.h, where rows are multiples of 16 bytes,
// else plain_grouped_linear.h.
//
// db_e is summed by a block for each expert and 32 columns: 32 warps take the segment's rows in
// turns, 8 in flight each, then their sums are added in the order of warps. Bytes: an element of dy
// read. The order depends on the number of rows alone: bitwise deterministic. Off by at most
// ceil(rows / 32) + 32 roundings of the sum of the sizes.
#include "kernels/experts/grouped_linear.h"

#include <algorithm>

#include "kernels/cuda/experts/grouped_product.h"
#include "kernels/cuda/experts/plain_grouped_linear.h"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = 32;
constexpr int kUnroll = 8;

// Block (x, y): columns from 32 x on, of experts y, y + gridDim.y, ...
template <typename T, typename G>
__global__ void __launch_bounds__(kWarps* cuda::kWarp)
    GroupedBiasGradientKernel(const int32_t* offsets, int64_t experts, int64_t columns, const T* dy,
                              bool accumulate, G* dbias) {
  __shared__ float shared[kWarps][cuda::kWarp];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int64_t column = int64_t{blockIdx.x} * cuda::kWarp + lane;
  for (int64_t e = blockIdx.y; e < experts; e += gridDim.y) {
    const int64_t end = offsets[e + 1];
    float sums[1] = {};
    for (int64_t row = offsets[e] + warp; row < end && column < columns; row += kWarps * kUnroll) {
      float values[kUnroll] = {};
#pragma unroll
      for (int k = 0; k < kUnroll; ++k) {
        const int64_t at = row + k * kWarps;
        if (at < end) values[k] = cuda::ToFloat(dy[at * columns + column]);
      }
#pragma unroll
      for (int k = 0; k < kUnroll; ++k) sums[0] += values[k];
    }
    cuda::SumOverWarps(sums, shared);
    if (warp == 0 && column < columns) {
      G* at = dbias + e * columns + column;
      *at = cuda::FromFloat<G>(accumulate ? cuda::ToFloat(*at) + sums[0] : sums[0]);
    }
    __syncthreads();
  }
}

void BiasGradient(const GroupedLinearWeightGradientArgs& args, Stream* stream) {
  const GroupedLinearSpec& spec = args.spec;
  const dim3 grid(static_cast<unsigned>(cuda::CeilDiv(spec.out_features, cuda::kWarp)),
                  static_cast<unsigned>(std::min(spec.experts, int64_t{65535})));
  cuda::ForDType(spec.dtype, [&](auto zero) {
    cuda::ForDType(spec.grad_dtype, [&](auto grad_zero) {
      using T = decltype(zero);
      using G = decltype(grad_zero);
      GroupedBiasGradientKernel<<<grid, kWarps * cuda::kWarp, 0, cuda::Handle(stream)>>>(
          args.offsets, spec.experts, spec.out_features, static_cast<const T*>(args.dy),
          args.accumulate, static_cast<G*>(args.dbias));
    });
  });
  cuda::CheckLaunch("GroupedLinearWeightGradient");
}

void Require(const GroupedLinearSpec& spec, int64_t rows, const char* op) {
  cuda::RequireSupported(GroupedLinearSupports(spec), op);
  cuda::RequireExtent(rows, op, "rows");
}

}  // namespace

bool GroupedLinearSupports(const GroupedLinearSpec& spec) {
  return spec.experts > 0 && spec.in_features > 0 && spec.out_features > 0;
}

void GroupedLinearForward(const GroupedLinearForwardArgs& args, Stream* stream) {
  Require(args.spec, args.rows, "GroupedLinearForward");
  if (args.rows == 0) return;
  if (cuda::GroupedProductTakes(args.spec) &&
      cuda::AllAligned(args.x, args.weight, args.bias, args.y)) {
    cuda::GroupedProduct(args, stream);
  } else {
    cuda::PlainGroupedLinear(args, stream);
  }
}

void GroupedLinearInputGradient(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  Require(args.spec, args.rows, "GroupedLinearInputGradient");
  if (args.rows == 0) return;
  if (cuda::GroupedProductTakes(args.spec) && cuda::AllAligned(args.dy, args.weight, args.dx)) {
    cuda::GroupedProduct(args, stream);
  } else {
    cuda::PlainGroupedLinear(args, stream);
  }
}

// Without rows, too, dW and db are zeros where they are overwritten.
void GroupedLinearWeightGradient(const GroupedLinearWeightGradientArgs& args, Stream* stream) {
  Require(args.spec, args.rows, "GroupedLinearWeightGradient");
  if (args.rows == 0 && args.accumulate) return;
  if (args.dweight != nullptr) {
    if (args.rows > 0 && cuda::GroupedProductTakes(args.spec) &&
        cuda::AllAligned(args.dy, args.x, args.dweight)) {
      cuda::GroupedWeightProduct(args, stream);
    } else {
      cuda::PlainGroupedLinear(args, stream);
    }
  }
  if (args.dbias != nullptr) BiasGradient(args, stream);
}

}  // namespace coxswain::kernels
