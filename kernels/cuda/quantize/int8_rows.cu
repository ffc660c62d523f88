// INT8 by rows. Quantising: a thread block a row, read twice. Dequantising: 4 elements a thread and
// vector, four vectors in flight, or one by one where rows do not divide; 1 byte read and 2
// (bfloat16) written per element. Every product is rounded by itself.
#include "kernels/quantize/int8_rows.h"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;

__global__ void __launch_bounds__(kThreads) QuantizeKernel(Int8QuantizeRowsArgs args) {
  __shared__ float shared[cuda::kWarp];
  const float* const in = args.in + blockIdx.x * args.cols;
  float absmax = 0;
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) absmax = fmaxf(absmax, fabsf(in[i]));
  absmax = cuda::BlockMax(absmax, shared);
  if (threadIdx.x == 0) args.absmax[blockIdx.x] = absmax;
  const float scale = absmax > 0 ? __fdiv_rn(127.0f, absmax) : 0.0f;
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
    args.codes[blockIdx.x * args.cols + i] =
        static_cast<int8_t>(__float2int_rn(__fmul_rn(in[i], scale)));
  }
}

__device__ __forceinline__ float Dequantized(int8_t code, float absmax) {
  return __fmul_rn(__fmul_rn(static_cast<float>(code), absmax), 1.0f / 127.0f);
}

// N divides cols.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) DequantizeKernel(Int8DequantizeRowsArgs args) {
  const int64_t vectors = args.rows * args.cols / N;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kVectors) + threadIdx.x;
  using Raw = typename cuda::RawBytes<N == 4 ? 4 : 2>::Type;
  Raw raw[kVectors] = {};
  float absmax[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    if constexpr (N == 4) {
      raw[k] = __ldcs(reinterpret_cast<const Raw*>(args.codes) + v);
    } else {
      raw[k] = static_cast<uint8_t>(args.codes[v]);
    }
    absmax[k] = __ldg(args.absmax + v * N / args.cols);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    cuda::Vector<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.value[i] = Dequantized(static_cast<int8_t>(raw[k] >> (8 * i)), absmax[k]);
    }
    out.Store(static_cast<T*>(args.out) + v * N);
  }
}

template <typename T, int N>
void Launch(const Int8DequantizeRowsArgs& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(
      cuda::CeilDiv(cuda::CeilDiv(args.rows * args.cols, N), kThreads * kVectors));
  DequantizeKernel<T, N><<<blocks, kThreads, 0, stream>>>(args);
}

}  // namespace

void Int8QuantizeRows(const Int8QuantizeRowsArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "Int8QuantizeRows", "rows");
  cuda::RequireExtent(args.cols, "Int8QuantizeRows", "cols");
  if (args.rows == 0) return;
  QuantizeKernel<<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("Int8QuantizeRows");
}

void Int8DequantizeRows(const Int8DequantizeRowsArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "Int8DequantizeRows", "rows");
  cuda::RequireExtent(args.cols, "Int8DequantizeRows", "cols");
  if (args.rows * args.cols == 0) return;
  const cudaStream_t handle = cuda::Handle(stream);
  const bool aligned = args.cols % 4 == 0 && (reinterpret_cast<uintptr_t>(args.codes) % 4 |
                                              reinterpret_cast<uintptr_t>(args.out) % 16) == 0;
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (aligned) {
      Launch<T, 4>(args, handle);
    } else {
      Launch<T, 1>(args, handle);
    }
  });
  cuda::CheckLaunch("Int8DequantizeRows");
}

}  // namespace coxswain::kernels
