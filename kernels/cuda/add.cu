// y += alpha x.
//
// Elementwise over 16-byte vectors, 3 x sizeof(T) bytes moved per element; bitwise deterministic.
#include "kernels/add.h"

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void AddKernel(int64_t count, float alpha, const T* x, T* y) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * cuda::kVector<T>;
  if (first + cuda::kVector<T> <= count) {
    cuda::Vector<T> a, b;
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

}  // namespace

void Add(const AddArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Add", "count");
  if (args.count == 0) return;
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!cuda::Aligned<T>(args.x, 0) || !cuda::Aligned<T>(args.y, 0)) {
      throw std::invalid_argument("Add: x and y must be 16-byte aligned");
    }
    const int64_t blocks = cuda::CeilDiv(args.count, int64_t{kThreads} * cuda::kVector<T>);
    AddKernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, cuda::Handle(stream)>>>(
        args.count, args.alpha, static_cast<const T*>(args.x), static_cast<T*>(args.y));
  });
  cuda::CheckLaunch("Add");
}

}  // namespace coxswain::kernels
