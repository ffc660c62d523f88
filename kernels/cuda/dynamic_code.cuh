// Codes of a dynamic map by a table of lines in shared memory: what SignedDynamicCode and
// UnsignedDynamicCode of kernels/dynamic_map.h compute, in half of the instructions.
//
// A warp reads an entry of 16 bytes in about as many rounds as its lanes have exponents. A float's
// integer part comes from adding 2^23 rounded down.
#ifndef COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_
#define COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_

#include <cstdint>

#include "kernels/dynamic_lines.h"

namespace coxswain::kernels::cuda {

// As DynamicStep of min(size, 1), as a float below 256 with a fraction; NaN counts as 1.
__device__ __forceinline__ float DynamicPlace(const DynamicLineTable& table, float size) {
  const float a = fminf(size, 1.0f);
  const DynamicLines lines = table.of[__float_as_uint(a) >> 23];
  const float u =
      fminf(fmaf(a, lines.slope, lines.offset), fmaf(a, lines.next_slope, lines.next_offset));
  // Below 2^k + 0.2 the exponents differ.
  const float below = u - 0.2f;
  return (__float_as_uint(u) ^ __float_as_uint(below)) < 0x800000u ? u : below;
}

// The code in the lowest byte, anything above it.
__device__ __forceinline__ uint32_t SignedCodeByte(const DynamicLineTable& table, float x) {
  constexpr float kTop = kDynamicTop<true>, kInteger = 8388608.0f;
  const float place = DynamicPlace(table, fabsf(x));
  const float positive = place >= kTop - 0.25f ? kTop : place;
  // 127 + step, or 127 - step: the sign turns what is rounded, and with it the way it is rounded.
  return __float_as_uint(x < 0.0f ? __fsub_ru(kInteger + 127.0f, fminf(place, kTop - 0.5f))
                                  : __fadd_rd(kInteger + 127.0f, positive));
}
__device__ __forceinline__ uint32_t UnsignedCodeByte(const DynamicLineTable& table, float x) {
  constexpr float kTop = kDynamicTop<false>, kInteger = 8388608.0f;
  const float place = DynamicPlace(table, x);
  return __float_as_uint(__fadd_rd(kInteger - 1.0f, place >= kTop - 0.25f ? kTop : place));
}

// Four codes, the first in the lowest byte.
__device__ __forceinline__ uint32_t PackBytes(const uint32_t (&code)[4]) {
  return __byte_perm(__byte_perm(code[0], code[1], 0x0040), __byte_perm(code[2], code[3], 0x0040),
                     0x5410);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_
