// y += alpha x.
//
// Elementwise over 16-byte vectors of y; x is read once and y read and written, bitwise
// deterministic.
#include "kernels/tensors/add.h"

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T, typename X>
__global__ void AddKernel(int64_t count, float alpha, const X* x, T* y) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * cuda::kVector<T>;
  if (first + cuda::kVector<T> <= count) {
    cuda::Vector<X, cuda::kVector<T>> a;
    cuda::Vector<T> b;
    a.Load(x + first);
    b.Load(y + first);
#pragma unroll
    for (int i = 0; i < cuda::kVector<T>; ++i) b.value[i] += alpha * a.value[i];
    b.Store(y + first);
    return;
  }
  for (int64_t i = first; i < count; ++i) {
    y[i] = cuda::FromFloat<T>(cuda::ToFloat(y[i]) + alpha * cuda::ToFloat(x[i]));
  }
}

template <typename T, typename X>
void Launch(const AddArgs& args, Stream* stream) {
  if (!cuda::Aligned<X>(args.x, 0) || !cuda::Aligned<T>(args.y, 0)) {
    throw std::invalid_argument("Add: x and y must be 16-byte aligned");
  }
  const int64_t blocks = cuda::CeilDiv(args.count, int64_t{kThreads} * cuda::kVector<T>);
  AddKernel<T, X><<<static_cast<unsigned>(blocks), kThreads, 0, cuda::Handle(stream)>>>(
      args.count, args.alpha, static_cast<const X*>(args.x), static_cast<T*>(args.y));
}

}  // namespace

void Add(const AddArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Add", "count");
  if (args.count == 0) return;
  if (args.dtype == args.x_dtype) {
    cuda::ForDType(args.dtype, [&](auto zero) {
      using T = decltype(zero);
      Launch<T, T>(args, stream);
    });
  } else if (args.x_dtype == DType::kBFloat16) {
    Launch<float, cuda::bf16>(args, stream);
  } else {
    throw std::invalid_argument("Add: x of float32 and y of bfloat16");
  }
  cuda::CheckLaunch("Add");
}

}  // namespace coxswain::kernels
