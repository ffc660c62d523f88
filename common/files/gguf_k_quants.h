// The types of GGUF files whose blocks have 256 values. A float16 holds the scale of the scales of
// their sub-blocks. Source: ggml-common.h (block_q4_K, block_q5_K, block_q6_K) for the layouts; the
// choice of scales is our own (gguf_fit.h).
#ifndef COXSWAIN_COMMON_FILES_GGUF_K_QUANTS_H_
#define COXSWAIN_COMMON_FILES_GGUF_K_QUANTS_H_

#include <cstdint>

namespace coxswain {

inline constexpr int64_t kKQuantBlock = 256;

// Each encodes 256 values into one block. Sub-blocks get the scale and the minimum with the least
// squared error (FitLine); then, of the integers beside theirs, those whose error is least under
// the rounded float16. A NaN, or a magnitude above 2^15 * 63, which a float16 does not reach
// safely, makes the block NaN.

// Q4_K and Q5_K: 8 sub-blocks of 32 values d * scale * q - dmin * minimum; scale and minimum are
// integers of [0, 63], q of [0, 15] or [0, 31].
//   float16 d, float16 dmin
//   12 bytes: of sub-blocks j < 4 byte j is the scale and byte 4 + j the minimum, in the lower 6
//     bits; their upper 2 bits are bits 4 and 5 of those of sub-block 4 + j, whose lower 4 bits are
//     the halves of byte 8 + j, the scale's first
//   Q5_K: 32 bytes; bit j of byte i is bit 4 of q of value i of sub-block j
//   128 bytes: byte 32 g + i has the lower 4 bits of q of value i of sub-block 2 g, and in its
//   upper
//     half those of sub-block 2 g + 1
void EncodeQ4K(const float* values, char* out);  // 144 bytes
void EncodeQ5K(const float* values, char* out);  // 176 bytes

// Q6_K: 16 sub-blocks of 16 values d * scale * q; scale is an integer of [-128, 127], q of
// [-32, 31] and stored plus 32. The halves of 128 values lie alike, each as four runs of 32:
//   128 bytes, 64 of each half: byte i has the lower 4 bits of value i of the first run and, in its
//     upper half, of the third; byte 32 + i those of the second and the fourth
//   64 bytes, 32 of each half: byte i has bits 4 and 5 of value i of each run, the first's lowest
//   16 bytes: scales; float16 d
void EncodeQ6K(const float* values, char* out);  // 210 bytes

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_K_QUANTS_H_
