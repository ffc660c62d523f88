// Initial values of a tensor from counters (kernels/tensors/whole_tensors.h).
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Box and Muller,
// "A note on the generation of random normal deviates", 1958.
//
// A thread makes the 4 values of a counter and goes on by the whole grid. The arithmetic is double,
// about 130 instructions per normal value: a billion take about 10 ms. Bitwise deterministic; equal
// to the CPU's up to the last bit of the double logarithm, sine and cosine, which float32 rarely
// shows.
#include "kernels/tensors/whole_tensors.h"

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/philox.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr double kTwoPi = 6.283185307179586;

struct Values {
  float value[4];
};

__device__ __forceinline__ double Uniform(uint32_t word) {
  return static_cast<double>(word >> 8) * 0x1p-24;
}

__device__ __forceinline__ Values UniformValues(const PhiloxWords& words, double bound) {
  Values out;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    out.value[j] = static_cast<float>(bound * (2.0 * Uniform(words.word[j]) - 1.0));
  }
  return out;
}

__device__ __forceinline__ Values NormalValues(const PhiloxWords& words, double deviation) {
  Values out;
#pragma unroll
  for (int j = 0; j < 4; j += 2) {
    const double radius = sqrt(-2.0 * log(1.0 - Uniform(words.word[j])));
    double sine, cosine;
    sincos(kTwoPi * Uniform(words.word[j + 1]), &sine, &cosine);
    out.value[j] = static_cast<float>(deviation * radius * cosine);
    out.value[j + 1] = static_cast<float>(deviation * radius * sine);
  }
  return out;
}

// `out` may have any alignment: 4 stores of one element.
template <typename T>
__global__ void __launch_bounds__(kThreads) RandomFillKernel(RandomFillArgs args) {
  T* out = static_cast<T*>(args.out);
  const int64_t end = (args.first + args.count + 3) / 4, stride = int64_t{gridDim.x} * kThreads;
  for (int64_t g = args.first / 4 + int64_t{blockIdx.x} * kThreads + threadIdx.x; g < end;
       g += stride) {
    const PhiloxWords words = Philox({{static_cast<uint32_t>(g), static_cast<uint32_t>(g >> 32),
                                       args.counter[0], args.counter[1]}},
                                     args.key[0], args.key[1]);
    const Values values = args.kind == RandomFillKind::kUniform ? UniformValues(words, args.value)
                                                                : NormalValues(words, args.value);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t i = 4 * g + j - args.first;
      if (i >= 0 && i < args.count) out[i] = cuda::FromFloat<T>(values.value[j]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    RandomFillConstantKernel(int64_t count, float value, T* out) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    out[i] = cuda::FromFloat<T>(value);
  }
}

}  // namespace

void RandomFill(const RandomFillArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "RandomFill", "count");
  if (args.count == 0) return;
  const int64_t groups = cuda::CeilDiv(args.count, 4) + 1;
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(cuda::CeilDiv(groups, kThreads), 16 * int64_t{cuda::Multiprocessors()}));
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.kind == RandomFillKind::kConstant) {
      RandomFillConstantKernel<T><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
          args.count, static_cast<float>(args.value), static_cast<T*>(args.out));
    } else {
      RandomFillKernel<T><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
    }
  });
  cuda::CheckLaunch("RandomFill");
}

}  // namespace coxswain::kernels
