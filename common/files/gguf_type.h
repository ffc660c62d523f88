// Element types of tensors in GGUF files, and their bytes.
#ifndef COXSWAIN_COMMON_FILES_GGUF_TYPE_H_
#define COXSWAIN_COMMON_FILES_GGUF_TYPE_H_

#include <cstdint>
#include <string_view>

namespace coxswain {

// Values are those of ggml_type in the file. Source: ggml.h.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

std::string_view GgufTypeName(GgufType type);  // "Q8_0"
// Elements that are encoded together, which divide a row: 256, 32 or 1.
int64_t GgufBlock(GgufType type);
// Of `elements`, a multiple of the block.
int64_t GgufBytes(GgufType type, int64_t elements);

// Encodes `count` values, a multiple of the block, into GgufBytes(type, count). F16 and BF16 round
// to nearest even; blocks are those of gguf_blocks.h and gguf_k_quants.h.
void EncodeGguf(GgufType type, const float* values, int64_t count, char* out);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_TYPE_H_
