// Sum of vectors of several ranks in rank order.
//
// Elementwise over 16-byte vectors: each summand is read once and the sum written once, a total
// read and written; bitwise deterministic.
#include "kernels/cuda/tensors/ordered_sum.h"

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

// The sum goes to `out`, or is added to `total`.
template <typename T, bool kTotal>
__device__ __forceinline__ void Keep(const cuda::Vector<T>& sum, const OrderedSumArgs& args,
                                     int64_t first) {
  if constexpr (!kTotal) {
    sum.Store(static_cast<T*>(args.out) + first);
  } else {
    constexpr int kFloats = cuda::kVector<float>;
    cuda::Vector<float> total;
#pragma unroll
    for (int part = 0; part < cuda::kVector<T>; part += kFloats) {
      total.Load(args.total + first + part);
#pragma unroll
      for (int i = 0; i < kFloats; ++i) total.value[i] += sum.value[part + i];
      total.Store(args.total + first + part);
    }
  }
}

template <typename T, bool kTotal>
__global__ void OrderedSumKernel(const OrderedSumArgs args) {
  constexpr int kSize = cuda::kVector<T>;
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kSize;
  if (first + kSize <= args.count) {
    cuda::Vector<T> sum, next;
    sum.LoadStreaming(static_cast<const T*>(args.in[0]) + first);
    for (int s = 1; s < args.summands; ++s) {
      next.LoadStreaming(static_cast<const T*>(args.in[s]) + first);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum.value[i] += next.value[i];
    }
    Keep<T, kTotal>(sum, args, first);
    return;
  }
  for (int64_t i = first; i < args.count; ++i) {
    float sum = cuda::ToFloat(static_cast<const T*>(args.in[0])[i]);
    for (int s = 1; s < args.summands; ++s) {
      sum += cuda::ToFloat(static_cast<const T*>(args.in[s])[i]);
    }
    if constexpr (kTotal) {
      args.total[i] += sum;
    } else {
      static_cast<T*>(args.out)[i] = cuda::FromFloat<T>(sum);
    }
  }
}

}  // namespace

void OrderedSum(const OrderedSumArgs& args, cudaStream_t stream) {
  cuda::RequireExtent(args.count, "OrderedSum", "count");
  cuda::RequireSupported(args.summands >= 1 && args.summands <= kMaxSummands, "OrderedSum");
  if (args.count == 0) return;
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    bool aligned = cuda::Aligned<T>(args.out, 0) && cuda::Aligned<float>(args.total, 0);
    for (int s = 0; s < args.summands; ++s) aligned = aligned && cuda::Aligned<T>(args.in[s], 0);
    if (!aligned) throw std::invalid_argument("OrderedSum: pointers must be 16-byte aligned");
    const int64_t blocks = cuda::CeilDiv(args.count, int64_t{kThreads} * cuda::kVector<T>);
    const auto kernel =
        args.total != nullptr ? OrderedSumKernel<T, true> : OrderedSumKernel<T, false>;
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args);
  });
  cuda::CheckLaunch("OrderedSum");
}

}  // namespace coxswain::kernels
