// MXFP4, quantised once at loading and dequantised before every use.
//
// Dequantising: 8 elements a thread and vector, four vectors in flight; 0.53 bytes read and 2
// (bfloat16) or 4 written per element. A code's sign and three bits, put where float32 has its sign
// and the ends of exponent and fraction, are its value times 2^-126, the value 0.5 as a subnormal
// number; so two products by powers of two, both exact, give the element. Bitwise deterministic,
// the bits of the CPU but for those of a NaN.
// Quantising: four elements a thread, 8 threads a block of 32.
#include "kernels/quantize/mxfp4.h"

#include <stdexcept>
#include <string>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLane = 8;  // elements of a thread and vector
constexpr int kVectors = 4;
constexpr uint32_t kNanScale = 255, kNanBits = 0x7fc00000u, kInfinityBits = 0x7f800000u;

__constant__ Mxfp4Middles middles = kMxfp4Middles;

// 2^(scale - 127).
__device__ __forceinline__ float ScaleValue(uint32_t scale) {
  const uint32_t bits = scale == 0 ? 0x00400000u : scale << 23;
  return __uint_as_float(scale == kNanScale ? kNanBits : bits);
}

__device__ __forceinline__ float CodeValue(uint32_t code) {
  return __fmul_rn(__uint_as_float((code & 8u) << 28 | (code & 7u) << 22), 0x1p126f);
}

__device__ int CodeOf(float x, float inverse) {
  const float size = __fmul_rn(fabsf(x), inverse);
  int code = 0;
#pragma unroll
  for (int i = 0; i < 7; ++i) {
    const float middle = middles.values[i];
    code += (i % 2 == 0 ? size > middle : size >= middle) ? 1 : 0;
  }
  return code | (x < 0 ? 8 : 0);
}

__global__ void __launch_bounds__(kThreads) QuantizeKernel(Mxfp4QuantizeArgs args) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t begin = thread * 4;
  float x[4];
  uint32_t largest = 0;  // by its bits: NaN is above infinity
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = begin < args.elements ? args.in[begin + i] : 0.0f;
    largest = max(largest, __float_as_uint(x[i]) & 0x7fffffffu);
  }
#pragma unroll
  for (int lane = 1; lane < 8; lane *= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, lane));
  }
  if (begin >= args.elements) return;
  const bool finite = largest < kInfinityBits;
  const uint32_t scale = finite ? max(largest >> 23, 2u) - 2u : kNanScale;
  if (thread % 8 == 0) args.scales[thread / 8] = static_cast<uint8_t>(scale);
  const float inverse = __uint_as_float((254u - scale) << 23);
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const int codes = CodeOf(x[i], inverse) | CodeOf(x[i + 1], inverse) << 4;
    args.codes[(begin + i) / 2] = static_cast<uint8_t>(finite ? codes : 0);
  }
}

// Unaligned: where `out` cannot be written 16 bytes at a time.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads) DequantizeKernel(Mxfp4DequantizeArgs args) {
  const int64_t vectors = args.elements / kLane;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kVectors) + threadIdx.x;
  uint32_t raw[kVectors] = {};
  uint32_t scales[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    raw[k] = __ldcs(reinterpret_cast<const uint32_t*>(args.codes) + v);
    scales[k] = __ldg(args.scales + v * kLane / kMxfp4Block);
  }
  T* const out = static_cast<T*>(args.out);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    constexpr int kWidth = cuda::kVector<T>;
    cuda::Vector<T> vector;
    const float scale = ScaleValue(scales[k]);
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      const float x = __fmul_rn(CodeValue(raw[k] >> 4 * i), scale);
      if constexpr (kAligned) {
        vector.value[i % kWidth] = x;
        if ((i + 1) % kWidth == 0) vector.Store(out + v * kLane + i + 1 - kWidth);
      } else {
        out[v * kLane + i] = cuda::FromFloat<T>(x);
      }
    }
  }
}

void RequireBlocks(int64_t elements, const char* op) {
  cuda::RequireExtent(elements, op, "elements");
  if (elements % kMxfp4Block != 0) {
    throw std::invalid_argument(std::string(op) + ": elements is " + std::to_string(elements) +
                                ", must be a multiple of " + std::to_string(kMxfp4Block));
  }
}

}  // namespace

void Mxfp4Quantize(const Mxfp4QuantizeArgs& args, Stream* stream) {
  RequireBlocks(args.elements, "Mxfp4Quantize");
  if (args.elements == 0) return;
  const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.elements, kThreads * 4));
  QuantizeKernel<<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("Mxfp4Quantize");
}

void Mxfp4Dequantize(const Mxfp4DequantizeArgs& args, Stream* stream) {
  RequireBlocks(args.elements, "Mxfp4Dequantize");
  if (args.elements == 0) return;
  const auto blocks =
      static_cast<unsigned>(cuda::CeilDiv(args.elements / kLane, kThreads * kVectors));
  const auto launch = [&](auto kernel) {
    kernel<<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
  };
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(cuda::Aligned<T>(args.out, 0) ? DequantizeKernel<T, true> : DequantizeKernel<T, false>);
  });
  cuda::CheckLaunch("Mxfp4Dequantize");
}

}  // namespace coxswain::kernels
