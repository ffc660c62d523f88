// The types of GGUF files whose blocks have 32 values. Source: ggml-common.h (block_q5_0,
// block_q5_1, block_q8_0) for the layouts.
#ifndef COXSWAIN_COMMON_FILES_GGUF_BLOCKS_H_
#define COXSWAIN_COMMON_FILES_GGUF_BLOCKS_H_

#include <cstdint>

namespace coxswain {

inline constexpr int64_t kGgufBlock = 32;

// Q5_0: 32 values d * q, q an integer of [-16, 15] that is stored plus 16. Q5_1: d * q + m, q of
// [0, 31]. Scale and m have the least squared error (gguf_fit.h). A NaN, or a magnitude above
// 2^15, beyond which a float16 may not reach, makes the block NaN.
//   float16 d; Q5_1: float16 m
//   4 bytes: bit i of the 32, the lowest first, is bit 4 of q of value i
//   16 bytes: byte i has the lower 4 bits of q of value i, and in its upper half of value 16 + i
void EncodeQ5_0(const float* values, char* out);  // 22 bytes
void EncodeQ5_1(const float* values, char* out);  // 24 bytes

// Q8_0: of 32 values a float16 scale d = max|x| / 127 and 32 int8 x / d, rounded half away from
// zero; the quotients are of the float32 d, before its own rounding. Source: ggml-quants.c,
// quantize_row_q8_0_ref. A value that is not finite makes the block NaN.
void EncodeQ8_0(const float* values, char* out);  // 34 bytes

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_BLOCKS_H_
