#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::kernels {

// y += alpha x.
//
// Elementwise over 16-byte vectors of y; x is read once and y read and written, bitwise
// deterministic.

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

// x *= factor, in place.
//
// Elementwise over 16-byte vectors, which each block walks until the end: few enough blocks that a
// factor of 1, which every thread reads and returns upon, costs no more than the launch. One
// rounding, bitwise deterministic.

namespace {

constexpr int kBlocksPerMultiprocessor = 8;

template <typename V>
__global__ void __launch_bounds__(kThreads)
    ScaleKernel(int64_t vectors, const float* factor_of, typename V::Element* x) {
  const float factor = *factor_of;
  if (factor == 1.0f) return;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t v = int64_t{blockIdx.x} * kThreads + threadIdx.x; v < vectors; v += step) {
    V a;
    a.Load(x + v * V::kSize);
#pragma unroll
    for (float& value : a.value) value *= factor;
    a.Store(x + v * V::kSize);
  }
}

}  // namespace

void Scale(const ScaleArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Scale", "count");
  if (args.count == 0) return;
  cuda::ForVectorOf(args.dtype, args.count, {args.x}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t vectors = args.count / V::kSize;
    const int64_t blocks = std::min<int64_t>(cuda::CeilDiv(vectors, kThreads),
                                             kBlocksPerMultiprocessor * cuda::Multiprocessors());
    ScaleKernel<V><<<static_cast<unsigned>(blocks), kThreads, 0, cuda::Handle(stream)>>>(
        vectors, args.factor, static_cast<T*>(args.x));
  });
  cuda::CheckLaunch("Scale");
}

// float32 to bfloat16 and back, to nearest even; NaN becomes a NaN.
//
// Elementwise, 4 elements per access and kVectors accesses in flight per thread; 6 bytes moved per
// element. Equal types are copied as bytes. Bitwise deterministic.

namespace {

constexpr int kVectors = 4;

template <typename From, typename To, int N>
__global__ void __launch_bounds__(kThreads) ConvertKernel(int64_t count, const From* in, To* out) {
  using Input = cuda::Vector<From, N>;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kVectors) + threadIdx.x;
  const int64_t vectors = count / N;
  typename Input::Raw raw[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v < vectors) raw[k] = Input::FetchStreaming(in + v * N);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    Input input;
    cuda::Vector<To, N> output;
    input.Unpack(raw[k]);
#pragma unroll
    for (int i = 0; i < N; ++i) output.value[i] = input.value[i];
    if (v < vectors) output.StoreStreaming(out + v * N);
  }
  const int64_t tail = vectors * N + first;  // of the first block's first N - 1 threads
  if (tail < count) out[tail] = cuda::FromFloat<To>(cuda::ToFloat(in[tail]));
}

template <typename From, typename To>
void Launch(const ConvertArgs& args, cudaStream_t stream) {
  constexpr int kWide = 4;
  const bool aligned = cuda::Aligned<From>(args.in, 0) && cuda::Aligned<To>(args.out, 0);
  const int64_t width = aligned ? kWide : 1;
  const auto blocks =
      static_cast<unsigned>(cuda::CeilDiv(cuda::CeilDiv(args.count, width), kThreads * kVectors));
  const From* in = static_cast<const From*>(args.in);
  To* out = static_cast<To*>(args.out);
  if (aligned) {
    ConvertKernel<From, To, kWide><<<blocks, kThreads, 0, stream>>>(args.count, in, out);
  } else {
    ConvertKernel<From, To, 1><<<blocks, kThreads, 0, stream>>>(args.count, in, out);
  }
}

}  // namespace

void Convert(const ConvertArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Convert", "count");
  if (args.count == 0) return;
  const cudaStream_t handle = cuda::Handle(stream);
  if (args.from == args.to) {
    const auto bytes = static_cast<size_t>(args.count * DTypeBytes(args.to));
    cuda::CheckCuda(cudaMemcpyAsync(args.out, args.in, bytes, cudaMemcpyDeviceToDevice, handle),
                    "Convert");
  } else if (args.to == DType::kBFloat16) {
    Launch<float, cuda::bf16>(args, handle);
  } else {
    Launch<cuda::bf16, float>(args, handle);
  }
  cuda::CheckLaunch("Convert");
}

}  // namespace coxswain::kernels
