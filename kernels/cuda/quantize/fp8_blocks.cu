// FP8 in blocks of 128 x 128, once at loading.
//
// Four elements a thread where rows and pointers allow it, else one; a byte read and 2 (bfloat16)
// or 4 written per element. A code's sign and seven bits, put where float32 has its sign and the
// ends of exponent and fraction, are its value times 2^-120, exact for E4M3's subnormal numbers
// too. Bitwise deterministic, the bits of the CPU but for those of a NaN.
#include "kernels/quantize/fp8_blocks.h"

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

__device__ __forceinline__ float CodeValue(uint32_t code) {
  const uint32_t size = code & 127u;
  const float value = __fmul_rn(__uint_as_float((code & 128u) << 24 | size << 20), 0x1p120f);
  return size == 127u ? __uint_as_float(0x7fc00000u) : value;
}

// N elements a thread; where N is 4, all lie in one row and one block.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) DequantizeKernel(Fp8BlocksDequantizeArgs args) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (begin >= args.rows * args.cols) return;
  const int64_t row = begin / args.cols, col = begin - row * args.cols;
  const int64_t place = (args.first_row + row) / kFp8Block * Fp8Blocks(args.cols) + col / kFp8Block;
  const float scale = __ldg(args.scales + place);
  uint32_t codes = 0;
  if constexpr (N == kWidth) {
    codes = __ldcs(reinterpret_cast<const uint32_t*>(args.codes + begin));
  } else {
    codes = args.codes[begin];
  }
  cuda::Vector<T, N> vector;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    vector.value[i] = __fmul_rn(CodeValue(codes >> 8 * i & 255u), scale);
  }
  vector.Store(static_cast<T*>(args.out) + begin);
}

template <typename T>
void Launch(const Fp8BlocksDequantizeArgs& args, Stream* stream) {
  const auto aligned = [](const void* p, size_t bytes) {
    return reinterpret_cast<uintptr_t>(p) % bytes == 0;
  };
  const bool wide = args.cols % kWidth == 0 && aligned(args.codes, kWidth) &&
                    aligned(args.out, kWidth * sizeof(T));
  const auto blocks = static_cast<unsigned>(
      cuda::CeilDiv(args.rows * args.cols, int64_t{kThreads} * (wide ? kWidth : 1)));
  const auto kernel = wide ? DequantizeKernel<T, kWidth> : DequantizeKernel<T, 1>;
  kernel<<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
}

}  // namespace

void Fp8BlocksDequantize(const Fp8BlocksDequantizeArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "Fp8BlocksDequantize", "rows");
  cuda::RequireExtent(args.cols, "Fp8BlocksDequantize", "cols");
  cuda::RequireExtent(args.first_row, "Fp8BlocksDequantize", "first_row");
  if (args.rows == 0 || args.cols == 0) return;
  cuda::ForDType(args.dtype, [&](auto zero) { Launch<decltype(zero)>(args, stream); });
  cuda::CheckLaunch("Fp8BlocksDequantize");
}

}  // namespace coxswain::kernels
