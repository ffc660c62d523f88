// C = beta Z + bias: a product of no terms, and the start of one whose algorithm adds no bias.
//
// One thread per element, at most 2 x sizeof(T) bytes moved per element of C; bitwise
// deterministic. With beta 0, Z is not read.
#include <algorithm>

#include "kernels/cuda/products/gemm_plan.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <typename B, typename T>
struct Fill {
  int64_t m, n, ldc;
  float beta;
  const B* bias;
  const T* z;
  T* c;
};

template <typename B, typename T>
__global__ void GemmFillKernel(Fill<B, T> fill) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < fill.m * fill.n; i += step) {
    const int64_t row = i / fill.n, column = i % fill.n;
    const int64_t at = row * fill.ldc + column;
    float value = fill.bias == nullptr ? 0.0f : ToFloat(fill.bias[column]);
    if (fill.beta != 0.0f) value += fill.beta * ToFloat(fill.z[at]);
    fill.c[at] = FromFloat<T>(value);
  }
}

}  // namespace

void GemmFill(const GemmArgs& args, Stream* stream) {
  if (args.beta == 1.0f && args.bias == nullptr && AddendOf(args) == args.c) return;
  ForDType(args.spec.dtype, [&](auto of_bias) {
    ForDType(args.spec.output_dtype, [&](auto of_output) {
      using B = decltype(of_bias);
      using T = decltype(of_output);
      const Fill<B, T> fill{args.m,
                            args.n,
                            args.ldc,
                            args.beta,
                            static_cast<const B*>(args.bias),
                            static_cast<const T*>(AddendOf(args)),
                            static_cast<T*>(args.c)};
      const int64_t blocks =
          std::min<int64_t>(CeilDiv(args.m * args.n, kThreads), int64_t{8} * Multiprocessors());
      GemmFillKernel<<<static_cast<unsigned>(blocks), kThreads, 0, Handle(stream)>>>(fill);
    });
  });
  CheckLaunch("Gemm");
}

}  // namespace coxswain::kernels::cuda
