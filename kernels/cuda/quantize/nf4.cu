// NF4, quantised once at loading and dequantised before every use.
//
// Dequantising: 8 elements a thread and vector, four vectors in flight; 0.52 bytes read and 2
// (bfloat16) written per element. The sixteen values lie in shared memory once for each of the 32
// banks, so that lanes with different codes do not meet. Every product is rounded by itself: no
// fused multiply-add, which would not give the bits of the format.
// Quantising: half a warp a block of 64; the sum of the absmax is one thread block's.
#include "kernels/quantize/nf4.h"

#include <algorithm>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/optimizer/dynamic_map.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLane = 8;  // elements of a thread and vector
constexpr int kVectors = 4;
constexpr int kBanks = 32;

__constant__ DynamicMap scale_map = kSignedDynamicMap;
__constant__ Nf4Map nf4_map = kNf4Map;

__device__ uint8_t CodeOf(float x) {
  int code = 0;
#pragma unroll
  for (int i = 0; i < 15; ++i) {
    code += 0.5f * (nf4_map.values[i] + nf4_map.values[i + 1]) < x ? 1 : 0;
  }
  return static_cast<uint8_t>(x == x ? code : 7);
}

// Four elements a thread, 16 threads a block of 64.
__global__ void __launch_bounds__(kThreads) QuantizeKernel(Nf4QuantizeArgs args) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t begin = thread * 4;
  float x[4];
  float absmax = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = begin + i < args.elements ? args.in[begin + i] : 0.0f;
    absmax = fmaxf(absmax, fabsf(x[i]));
  }
#pragma unroll
  for (int lane = 1; lane < 16; lane *= 2) {
    absmax = fmaxf(absmax, __shfl_xor_sync(0xffffffffu, absmax, lane));
  }
  if (begin >= args.elements) return;
  if (thread % 16 == 0) args.absmax[thread / 16] = absmax;
  const float inverse = absmax > 0 ? __frcp_rn(absmax) : 0.0f;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    if (begin + i >= args.elements) break;
    const int high = CodeOf(__fmul_rn(x[i], inverse));
    const int low = begin + i + 1 < args.elements ? CodeOf(__fmul_rn(x[i + 1], inverse)) : 0;
    args.codes[(begin + i) / 2] = static_cast<uint8_t>(high << 4 | low);
  }
}

__global__ void __launch_bounds__(kNf4SumLanes) OffsetKernel(Nf4QuantizeScalesArgs args) {
  __shared__ double lanes[kNf4SumLanes];
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < args.blocks; i += kNf4SumLanes) sum += args.absmax[i];
  lanes[threadIdx.x] = sum;
  for (int half = kNf4SumLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
  if (threadIdx.x == 0) {
    args.constants[0] = static_cast<float>(lanes[0] / static_cast<double>(args.blocks));
  }
}

__global__ void __launch_bounds__(kNf4ScaleGroup) ScaleCodesKernel(Nf4QuantizeScalesArgs args) {
  __shared__ float shared[cuda::kWarp];
  const int64_t i = int64_t{blockIdx.x} * kNf4ScaleGroup + threadIdx.x;
  const float x = i < args.blocks ? __fsub_rn(args.absmax[i], args.constants[0]) : 0.0f;
  const float absmax = cuda::BlockMax(fabsf(x), shared);
  if (threadIdx.x == 0) args.constants[1 + blockIdx.x] = absmax;
  if (i < args.blocks) {
    args.codes[i] = NearestCode(scale_map, absmax > 0 ? __fdiv_rn(x, absmax) : 0.0f);
  }
}

template <bool kDouble>
__device__ float AbsmaxOf(const Nf4DequantizeArgs& args, const float* map, int64_t block) {
  if constexpr (!kDouble) return __ldg(args.absmax + block);
  const float group = __ldg(args.constants + 1 + (args.first_block + block) / kNf4ScaleGroup);
  return __fadd_rn(__fmul_rn(map[args.absmax_codes[block]], group), __ldg(args.constants));
}

// Unaligned: where `out` cannot be written 16 bytes at a time.
template <typename T, bool kDouble, bool kAligned>
__global__ void __launch_bounds__(kThreads) DequantizeKernel(Nf4DequantizeArgs args) {
  __shared__ float table[16][kBanks];
  __shared__ float map[kDynamicCodes];
  for (int i = threadIdx.x; i < 16 * kBanks; i += kThreads) {
    table[i / kBanks][i % kBanks] = nf4_map.values[i / kBanks];
  }
  if constexpr (kDouble) map[threadIdx.x] = scale_map.values[threadIdx.x];
  static_assert(kThreads == kDynamicCodes);
  __syncthreads();
  const int bank = static_cast<int>(threadIdx.x) % kBanks;
  const int64_t vectors = args.elements / kLane;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kVectors) + threadIdx.x;
  uint32_t raw[kVectors] = {};
  float absmax[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    raw[k] = __ldcs(reinterpret_cast<const uint32_t*>(args.codes) + v);
    absmax[k] = AbsmaxOf<kDouble>(args, map, v * kLane / kNf4Block);
  }
  T* const out = static_cast<T*>(args.out);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int64_t v = first + k * kThreads;
    if (v >= vectors) continue;
    constexpr int kWidth = cuda::kVector<T>;
    cuda::Vector<T> vector;
#pragma unroll
    for (int i = 0; i < kLane; ++i) {  // byte i / 2, its high nibble first
      const uint32_t code = raw[k] >> (8 * (i / 2) + (i % 2 == 0 ? 4 : 0)) & 15u;
      const float x = __fmul_rn(table[code][bank], absmax[k]);
      if constexpr (kAligned) {
        vector.value[i % kWidth] = x;
        if ((i + 1) % kWidth == 0) vector.Store(out + v * kLane + i + 1 - kWidth);
      } else {
        out[v * kLane + i] = cuda::FromFloat<T>(x);
      }
    }
  }
  const int64_t tail = vectors * kLane + first;  // of the first block's first threads
  if (tail < args.elements) {
    const uint32_t code = args.codes[tail / 2] >> (tail % 2 == 0 ? 4 : 0) & 15u;
    const float scale = AbsmaxOf<kDouble>(args, map, tail / kNf4Block);
    out[tail] = cuda::FromFloat<T>(__fmul_rn(table[code][bank], scale));
  }
}

}  // namespace

void Nf4Quantize(const Nf4QuantizeArgs& args, Stream* stream) {
  cuda::RequireExtent(args.elements, "Nf4Quantize", "elements");
  if (args.elements == 0) return;
  const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.elements, kThreads * 4));
  QuantizeKernel<<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("Nf4Quantize");
}

void Nf4QuantizeScales(const Nf4QuantizeScalesArgs& args, Stream* stream) {
  cuda::RequireExtent(args.blocks, "Nf4QuantizeScales", "blocks");
  if (args.blocks == 0) return;
  const cudaStream_t handle = cuda::Handle(stream);
  OffsetKernel<<<1, kNf4SumLanes, 0, handle>>>(args);
  const auto groups = static_cast<unsigned>(cuda::CeilDiv(args.blocks, kNf4ScaleGroup));
  ScaleCodesKernel<<<groups, kNf4ScaleGroup, 0, handle>>>(args);
  cuda::CheckLaunch("Nf4QuantizeScales");
}

void Nf4Dequantize(const Nf4DequantizeArgs& args, Stream* stream) {
  cuda::RequireExtent(args.elements, "Nf4Dequantize", "elements");
  if (args.elements == 0) return;
  const auto blocks = static_cast<unsigned>(
      cuda::CeilDiv(cuda::CeilDiv(args.elements, kLane), kThreads * kVectors));
  const cudaStream_t handle = cuda::Handle(stream);
  const auto launch = [&](auto kernel) { kernel<<<blocks, kThreads, 0, handle>>>(args); };
  const bool twice = args.absmax == nullptr;
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (cuda::Aligned<T>(args.out, 0)) {
      launch(twice ? DequantizeKernel<T, true, true> : DequantizeKernel<T, false, true>);
    } else {
      launch(twice ? DequantizeKernel<T, true, false> : DequantizeKernel<T, false, false>);
    }
  });
  cuda::CheckLaunch("Nf4Dequantize");
}

}  // namespace coxswain::kernels
