// The first maximum of each row. One block per row, which reads it once: sizeof(T) bytes per
// element. Threads keep their best (value, column); the better of two is the larger value, of
// equals the lower column: an order, so the answer is bitwise deterministic. A NaN is larger than
// all.
#include "kernels/loss/cross_entropy.h"

#include <limits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 1024;

struct Best {
  float value;
  int32_t column;
};

__device__ __forceinline__ Best Better(Best a, Best b) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (a.value == b.value || a_nan) return a.column <= b.column ? a : b;
  return a.value > b.value ? a : b;
}

__device__ __forceinline__ Best WarpBest(Best best) {
#pragma unroll
  for (int offset = cuda::kWarp / 2; offset > 0; offset /= 2) {
    const Best other = {__shfl_xor_sync(~0u, best.value, offset),
                        __shfl_xor_sync(~0u, best.column, offset)};
    best = Better(best, other);
  }
  return best;
}

template <typename V>
__global__ void __launch_bounds__(kThreads) ArgmaxKernel(const ArgmaxArgs args) {
  using T = typename V::Element;
  const int64_t row = blockIdx.x, columns = args.spec.columns;
  const T* z = static_cast<const T*>(args.values) + row * args.ld;
  Best best = {-INFINITY, std::numeric_limits<int32_t>::max()};
  const int64_t whole = columns / V::kSize * V::kSize;
  for (int64_t v = int64_t{threadIdx.x} * V::kSize; v < whole; v += kThreads * V::kSize) {
    V x;
    x.Load(z + v);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      best = Better(best, {x.value[i], static_cast<int32_t>(v + i)});
    }
  }
  if (const int64_t column = whole + threadIdx.x; column < columns) {
    best = Better(best, {cuda::ToFloat(z[column]), static_cast<int32_t>(column)});
  }
  __shared__ Best of_warps[kThreads / cuda::kWarp];
  best = WarpBest(best);
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  if (lane == 0) of_warps[warp] = best;
  __syncthreads();
  if (warp != 0) return;
  best = WarpBest(of_warps[lane]);
  if (lane == 0) args.columns[row] = best.value != best.value ? -1 : best.column;
}
static_assert(kThreads / cuda::kWarp == cuda::kWarp);

}  // namespace

bool ArgmaxSupports(const ArgmaxSpec& spec) {
  return spec.columns > 0 && spec.columns < std::numeric_limits<int32_t>::max();
}

void Argmax(const ArgmaxArgs& args, Stream* stream) {
  cuda::RequireSupported(ArgmaxSupports(args.spec), "Argmax");
  cuda::RequireExtent(args.rows, "Argmax", "rows");
  if (args.rows == 0) return;
  ArgmaxArgs strided = args;
  strided.ld = cuda::RowStride(args.ld, args.spec.columns, "Argmax");
  cuda::ForVectorOf(args.spec.dtype, strided.ld, {args.values}, [&](auto vector) {
    ArgmaxKernel<decltype(vector)>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(strided);
  });
  cuda::CheckLaunch("Argmax");
}

}  // namespace coxswain::kernels
