// Codes of a dynamic map by a table of lines in shared memory: what SignedDynamicCode and
// UnsignedDynamicCode of kernels/optimizer/dynamic_map.h compute, in a third of the instructions.
//
// A warp reads an entry of 16 bytes in about as many rounds as its lanes have exponents. A float's
// integer part comes from adding 1.5 2^23 rounded down: what that costs lies in the pipe of
// products, where comparing and choosing, of half its rate, have not filled it.
#ifndef COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_
#define COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_

#include <cstdint>

#include "kernels/optimizer/dynamic_lines.h"

namespace coxswain::kernels::cuda {

inline constexpr float kInteger = 12582912.0f;  // 1.5 2^23: neighbouring floats are 1 apart

// As DynamicStep of min(size, 1), with a fraction. NaN: anything.
template <bool kSigned>
__device__ __forceinline__ float DynamicPlace(const DynamicLineTable& table, float size) {
  constexpr float kTop = kDynamicTop<kSigned>;
  const DynamicLines lines = table.of[__float_as_uint(size) >> 23];
  const float u =
      fminf(fmaf(size, lines.slope, lines.offset), fmaf(size, lines.next_slope, lines.next_offset));
  // Below 2^k + 0.2 the exponents differ.
  const float below = u - 0.2f;
  const bool same = (__float_as_uint(u) ^ __float_as_uint(below)) < 0x800000u;
  return u >= kTop - 0.25f ? kTop : same ? u : below;
}

// The code of size with the sign of `sign` in the lowest byte, anything above it: 127 + step of a
// positive number, 127 - step of a negative one, for -ceil(place - 1) is -floor(place) between
// integers, which are middles, and the last step of the negative ones is 127.
__device__ __forceinline__ uint32_t SignedCodeByte(const DynamicLineTable& table, float size,
                                                   float sign) {
  const float place = DynamicPlace<true>(table, size);
  return __float_as_uint(__fadd_rd(kInteger + 127.0f, copysignf(place - 0.5f, sign) + 0.5f));
}
__device__ __forceinline__ uint32_t UnsignedCodeByte(const DynamicLineTable& table, float size) {
  return __float_as_uint(__fadd_rd(kInteger - 1.0f, DynamicPlace<false>(table, size)));
}

// Four codes, the first in the lowest byte.
__device__ __forceinline__ uint32_t PackBytes(const uint32_t (&code)[4]) {
  return __byte_perm(__byte_perm(code[0], code[1], 0x0040), __byte_perm(code[2], code[3], 0x0040),
                     0x5410);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_DYNAMIC_CODE_CUH_
