// float32 to bfloat16 and back, to nearest even; NaN becomes a NaN.
//
// Elementwise, 4 elements per access and kVectors accesses in flight per thread; 6 bytes moved per
// element. Equal types are copied as bytes. Bitwise deterministic.
#include "kernels/tensors/convert.h"

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
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
