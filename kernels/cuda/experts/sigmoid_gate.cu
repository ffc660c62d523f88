// Rows scaled by a gate each and added, and their gradients (kernels/experts/expert_rows.h).
//
// A block has a row, a thread a vector of its columns at a time, which it reads before it writes
// there: dx may be x. The products of the logit's gradient are summed in float32 by thread, then by
// warps, then over the warps in their order: bitwise deterministic.
//
// Bytes: 3 sizeof(T) per element forward, 3 backward. The gate is off by (|l| + 4) (1 - s) u + 3 u
// relative (glu.cuh), u = 2^-24, and the sum by (H / 256 + 21) u of the products' sizes.
#include "kernels/experts/expert_rows.h"

#include <limits>
#include <stdexcept>

#include "kernels/cuda/activations/glu.cuh"
#include "kernels/cuda/loss/token_rows.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

template <typename V>
__global__ void __launch_bounds__(cuda::kTokenThreads)
    SigmoidGateForwardKernel(const SigmoidGateForwardArgs args) {
  using T = typename V::Element;
  const int64_t row = blockIdx.x, columns = args.spec.columns;
  const float gate = cuda::Logistic(cuda::ToFloat(static_cast<const T*>(args.logits)[row]));
  const T* x = static_cast<const T*>(args.x) + row * columns;
  T* y = static_cast<T*>(args.y) + row * columns;
  for (int64_t column = int64_t{threadIdx.x} * V::kSize; column < columns;
       column += int64_t{blockDim.x} * V::kSize) {
    V in, sum;
    in.LoadStreaming(x + column);
    sum.Load(y + column);
#pragma unroll
    for (int j = 0; j < V::kSize; ++j) sum.value[j] = fmaf(gate, in.value[j], sum.value[j]);
    sum.Store(y + column);
  }
}

template <typename V>
__global__ void __launch_bounds__(cuda::kTokenThreads)
    SigmoidGateBackwardKernel(const SigmoidGateBackwardArgs args) {
  using T = typename V::Element;
  __shared__ float shared[cuda::kWarp];
  const int64_t row = blockIdx.x, columns = args.spec.columns;
  const float gate = cuda::Logistic(cuda::ToFloat(static_cast<const T*>(args.logits)[row]));
  const T* x = static_cast<const T*>(args.x) + row * columns;
  const T* dy = static_cast<const T*>(args.dy) + row * columns;
  T* dx = args.dx == nullptr ? nullptr : static_cast<T*>(args.dx) + row * columns;
  float product = 0.0f;
  for (int64_t column = int64_t{threadIdx.x} * V::kSize; column < columns;
       column += int64_t{blockDim.x} * V::kSize) {
    V in, gradient;
    gradient.Load(dy + column);
    if (args.dlogits != nullptr) {
      in.Load(x + column);
#pragma unroll
      for (int j = 0; j < V::kSize; ++j) product = fmaf(gradient.value[j], in.value[j], product);
    }
    if (dx == nullptr) continue;
#pragma unroll
    for (int j = 0; j < V::kSize; ++j) gradient.value[j] *= gate;
    gradient.Store(dx + column);
  }
  if (args.dlogits == nullptr) return;
  // Its barrier stands between the reads of a logit and the write, which may be to its place.
  const float sum = cuda::BlockSum(product, shared);
  if (threadIdx.x != 0) return;
  static_cast<T*>(args.dlogits)[row] = cuda::FromFloat<T>(gate * (1.0f - gate) * sum);
}

// Blocks of a launch: one a row.
unsigned Blocks(const SigmoidGateSpec& spec, int64_t rows) {
  cuda::RequireSupported(SigmoidGateSupports(spec), "SigmoidGate");
  cuda::RequireExtent(rows, "SigmoidGate", "rows");
  if (rows > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("SigmoidGate: " + std::to_string(rows) +
                                " rows, must be below 2147483648");
  }
  return static_cast<unsigned>(rows);
}

}  // namespace

bool SigmoidGateSupports(const SigmoidGateSpec& spec) { return spec.columns > 0; }

void SigmoidGateForward(const SigmoidGateForwardArgs& args, Stream* stream) {
  const unsigned blocks = Blocks(args.spec, args.rows);
  if (blocks == 0) return;
  const int64_t columns = args.spec.columns;
  cuda::ForVectorOf(args.spec.dtype, columns, {args.x, args.y}, [&](auto vector) {
    using V = decltype(vector);
    SigmoidGateForwardKernel<V>
        <<<blocks, cuda::TokenThreads(columns / V::kSize), 0, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("SigmoidGateForward");
}

void SigmoidGateBackward(const SigmoidGateBackwardArgs& args, Stream* stream) {
  const unsigned blocks = Blocks(args.spec, args.rows);
  if (blocks == 0) return;
  const int64_t columns = args.spec.columns;
  cuda::ForVectorOf(args.spec.dtype, columns, {args.x, args.dy, args.dx}, [&](auto vector) {
    using V = decltype(vector);
    SigmoidGateBackwardKernel<V>
        <<<blocks, cuda::TokenThreads(columns / V::kSize), 0, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("SigmoidGateBackward");
}

}  // namespace coxswain::kernels
