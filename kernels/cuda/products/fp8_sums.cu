// Four elements a thread, or one where rows of C are not aligned to four; 4 bytes read and at most
// two elements moved per element of C. Rounds once, to C. Bitwise deterministic.
#include "kernels/cuda/products/fp8_sums.h"

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <typename T, typename B>
struct Params {
  int64_t rows, n, ldc;
  const float* sums;
  float beta;
  const T* z;
  const B* bias;
  T* c;
};

template <typename T, typename B, int N>
__global__ void __launch_bounds__(kThreads) AddToSumsKernel(Params<T, B> p) {
  const int64_t step = int64_t{gridDim.x} * kThreads, vectors = p.rows * p.n / N;
  for (int64_t v = int64_t{blockIdx.x} * kThreads + threadIdx.x; v < vectors; v += step) {
    const int64_t row = v * N / p.n, column = v * N - row * p.n;
    Vector<float, N> sums;
    sums.Load(p.sums + v * N);
    Vector<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.value[i] = sums.value[i];
    if (p.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < N; ++i) out.value[i] += ToFloat(p.bias[column + i]);
    }
    if (p.beta != 0.0f) {
      Vector<T, N> z;
      z.Load(p.z + row * p.ldc + column);
#pragma unroll
      for (int i = 0; i < N; ++i) out.value[i] += p.beta * z.value[i];
    }
    out.Store(p.c + row * p.ldc + column);
  }
}

}  // namespace

void AddToSums(const Fp8GemmArgs& args, int64_t first, int64_t rows, const float* sums,
               Stream* stream) {
  ForDType(args.spec.output_dtype, [&](auto of_output) {
    ForDType(args.spec.bias_dtype, [&](auto of_bias) {
      using T = decltype(of_output);
      using B = decltype(of_bias);
      const void* const z = args.addend == nullptr ? args.c : args.addend;
      const Params<T, B> p{.rows = rows,
                           .n = args.n,
                           .ldc = args.ldc,
                           .sums = sums,
                           .beta = args.beta,
                           .z = static_cast<const T*>(z) + first * args.ldc,
                           .bias = static_cast<const B*>(args.bias),
                           .c = static_cast<T*>(args.c) + first * args.ldc};
      const auto aligned = [](const void* data) {
        return reinterpret_cast<uintptr_t>(data) % (kWidth * sizeof(T)) == 0;
      };
      const bool wide = args.n % kWidth == 0 && args.ldc % kWidth == 0 && aligned(p.c) &&
                        (args.beta == 0.0f || aligned(p.z));
      const int64_t vectors = rows * args.n / (wide ? kWidth : 1);
      const auto blocks = static_cast<unsigned>(
          std::min<int64_t>(CeilDiv(vectors, kThreads), int64_t{8} * Multiprocessors()));
      const auto kernel = wide ? AddToSumsKernel<T, B, kWidth> : AddToSumsKernel<T, B, 1>;
      kernel<<<blocks, kThreads, 0, Handle(stream)>>>(p);
    });
  });
  CheckLaunch("Fp8Gemm");
}

}  // namespace coxswain::kernels::cuda
