// The weighted sum of a token's rows, and its gradients (kernels/experts/expert_rows.h).
//
// Forward: token_rows.cuh. Backward in one pass: the block of a token reads its row of dy once, and
// of each of its rows a vector, whose product with dy goes into the slot's sum before w dy is
// written to its place, which may be where the row stood. The sums of the threads meet by warps,
// then over the warps in their order. The block of token t writes the zeros that belong into places
// t k to t k + k - 1, where they are behind the last pair: no pair reads those. A row and a weight
// have one writer: bitwise deterministic.
//
// Bytes: (1 + k) sizeof(T) per element of y forward, (1 + 2 k) backward. Products are summed in
// float32: a dweight is off by (H / 256 + 21) u of the sum of their sizes, u = 2^-24.
#include "kernels/experts/expert_rows.h"

#include "kernels/cuda/loss/token_rows.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = cuda::kTokenThreads / cuda::kWarp;

// Of the block's next slots: where their rows are, what weighs them, and what is at their own
// places in the order (0 or above: a row).
struct Slots {
  int32_t places[cuda::kSlots], order[cuda::kSlots];
  float weights[cuda::kSlots];

  __device__ __forceinline__ Slots(const CombineBackwardArgs& args, int64_t pair, int64_t count) {
    cuda::LoadSlots(args.places + pair, count, -1, places);
    cuda::LoadSlots(args.order + pair, count, 0, order);
    cuda::LoadSlots(args.weights + pair, count, 0.0f, weights);
  }
};

// The gradients at a vector of columns; adds its products to dots. `own` is the row of the first
// slot's place in the order.
template <typename V>
__device__ __forceinline__ void BackwardColumns(const CombineBackwardArgs& args, const Slots& slots,
                                                const typename V::Raw& dy_raw, int64_t own,
                                                int64_t column, float (&dots)[cuda::kSlots]) {
  using T = typename V::Element;
  const T* rows = static_cast<const T*>(args.rows) + column;
  T* drows = static_cast<T*>(args.drows) + column;
  const int64_t hidden = args.spec.hidden;
  typename V::Raw raw[cuda::kSlots];
#pragma unroll
  for (int i = 0; i < cuda::kSlots; ++i) {
    if (args.dweights != nullptr && slots.places[i] >= 0) {
      raw[i] = V::Fetch(rows + slots.places[i] * hidden);
    }
  }
  V dy;
  dy.Unpack(dy_raw);
#pragma unroll
  for (int i = 0; i < cuda::kSlots; ++i) {
    if (args.dweights != nullptr && slots.places[i] >= 0) {
      V row;
      row.Unpack(raw[i]);
#pragma unroll
      for (int j = 0; j < V::kSize; ++j) dots[i] = fmaf(dy.value[j], row.value[j], dots[i]);
    }
    if (args.drows == nullptr) continue;
    if (slots.places[i] >= 0) {
      V drow;
#pragma unroll
      for (int j = 0; j < V::kSize; ++j) drow.value[j] = slots.weights[i] * dy.value[j];
      drow.Store(drows + slots.places[i] * hidden);
    }
    if (slots.order[i] < 0) V{}.Store(drows + (own + i) * hidden);
  }
}

// The sums of the block's threads to dweights [count].
__device__ __forceinline__ void StoreDots(float (&dots)[cuda::kSlots], int64_t count,
                                          float* dweights) {
  __shared__ float of_warps[kWarps][cuda::kSlots];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
#pragma unroll
  for (int i = 0; i < cuda::kSlots; ++i) {
    const float dot = cuda::WarpSum(dots[i]);
    if (lane == 0) of_warps[warp][i] = dot;
  }
  __syncthreads();
  if (threadIdx.x < cuda::kSlots && threadIdx.x < count) {
    float sum = of_warps[0][threadIdx.x];
    for (int w = 1; w < static_cast<int>(blockDim.x) / cuda::kWarp; ++w) {
      sum += of_warps[w][threadIdx.x];
    }
    dweights[threadIdx.x] = sum;
  }
  __syncthreads();
}

template <typename V>
__global__ void __launch_bounds__(cuda::kTokenThreads)
    CombineBackwardKernel(const CombineBackwardArgs args) {
  using T = typename V::Element;
  const int64_t token = blockIdx.x, hidden = args.spec.hidden, chosen = args.spec.chosen;
  const T* dy = static_cast<const T*>(args.dy) + token * hidden;
  for (int64_t slot = 0; slot < chosen; slot += cuda::kSlots) {
    const int64_t pair = token * chosen + slot;
    const Slots slots(args, pair, chosen - slot);
    float dots[cuda::kSlots] = {};
    for (int64_t column = int64_t{threadIdx.x} * V::kSize; column < hidden;
         column += int64_t{blockDim.x} * V::kSize) {
      BackwardColumns<V>(args, slots, V::Fetch(dy + column), pair, column, dots);
    }
    if (args.dweights != nullptr) StoreDots(dots, chosen - slot, args.dweights + pair);
  }
}

}  // namespace

bool CombineSupports(const CombineSpec& spec) { return spec.hidden > 0 && spec.chosen > 0; }

void CombineForward(const CombineForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(CombineSupports(args.spec), "Combine");
  cuda::RequirePairs(args.tokens, args.spec.chosen, "Combine");
  cuda::SumTokens<true>({args.tokens, args.spec.hidden, args.spec.chosen, args.places, args.weights,
                         args.rows, args.y},
                        args.spec.dtype, cuda::Handle(stream));
  cuda::CheckLaunch("CombineForward");
}

void CombineBackward(const CombineBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(CombineSupports(args.spec), "Combine");
  cuda::RequirePairs(args.tokens, args.spec.chosen, "Combine");
  if (args.tokens == 0) return;
  const int64_t hidden = args.spec.hidden;
  cuda::ForVectorOf(args.spec.dtype, hidden, {args.rows, args.dy, args.drows}, [&](auto vector) {
    using V = decltype(vector);
    CombineBackwardKernel<V>
        <<<static_cast<unsigned>(args.tokens), cuda::TokenThreads(hidden / V::kSize), 0,
           cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("CombineBackward");
}

}  // namespace coxswain::kernels
