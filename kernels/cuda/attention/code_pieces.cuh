// Pieces of 8 elements of bfloat16 as codes in E4M3, and what these stand for.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_CODE_PIECES_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_CODE_PIECES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace coxswain::kernels::cuda {

// The largest of the sizes of pairs of bfloat16, in both halves.
__device__ __forceinline__ uint32_t LargerSizes(uint32_t largest, const uint4& piece) {
  constexpr uint32_t kSizes = 0x7fff7fffu;
  largest = __vmaxu2(largest, __vmaxu2(piece.x & kSizes, piece.y & kSizes));
  return __vmaxu2(largest, __vmaxu2(piece.z & kSizes, piece.w & kSizes));
}
// As the bits of a float32.
__device__ __forceinline__ uint32_t LargestSize(uint32_t pair) {
  return max(pair << 16, pair & 0xffff0000u);
}

__device__ __forceinline__ uint32_t CodePair(uint32_t values, float inverse) {
  const float2 scaled = make_float2(__uint_as_float(values << 16) * inverse,
                                    __uint_as_float(values & 0xffff0000u) * inverse);
  return __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, __NV_E4M3);
}
__device__ __forceinline__ uint2 CodesOf(const uint4& piece, float inverse) {
  return {CodePair(piece.x, inverse) | CodePair(piece.y, inverse) << 16,
          CodePair(piece.z, inverse) | CodePair(piece.w, inverse) << 16};
}

// Exact where the scale is a power of two: a code has 4 bits, bfloat16 8.
__device__ __forceinline__ uint32_t ValuePair(uint32_t codes, float scale) {
  const auto pair = static_cast<__nv_fp8x2_storage_t>(codes & 0xffffu);
  const float2 values = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
  const __nv_bfloat162 scaled = __floats2bfloat162_rn(values.x * scale, values.y * scale);
  return reinterpret_cast<const uint32_t&>(scaled);
}
__device__ __forceinline__ uint4 ValuesOf(const uint2& codes, float scale) {
  return {ValuePair(codes.x, scale), ValuePair(codes.x >> 16, scale), ValuePair(codes.y, scale),
          ValuePair(codes.y >> 16, scale)};
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_CODE_PIECES_CUH_
