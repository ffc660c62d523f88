// Element types of tensors in GGUF files, and their bytes.
#ifndef COXSWAIN_COMMON_FILES_GGUF_TYPE_H_
#define COXSWAIN_COMMON_FILES_GGUF_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain {

// Values are those of ggml_type in the file. Source: ggml.h.
enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

std::string_view GgufTypeName(GgufType type);  // "Q8_0"
// Of "f32", "f16", "bf16" or "q8_0"; nothing for another word.
std::optional<GgufType> GgufTypeOf(std::string_view word);
// general.file_type of a file whose matrices have the type. Source: llama.h, llama_ftype.
uint32_t GgufFileType(GgufType type);
// Elements that are encoded together, which divide a row: 32 of Q8_0, else 1.
int64_t GgufBlock(GgufType type);
// Of `elements`, a multiple of the block.
int64_t GgufBytes(GgufType type, int64_t elements);

// Encodes `values`, a multiple of the block. F16 and BF16 round to nearest even. Q8_0: 32 values
// are a float16 scale d = max|x| / 127 and 32 int8 x / d, rounded half away from zero; the
// quotients are of the float32 d, before its own rounding. Source: ggml-quants.c,
// quantize_row_q8_0_ref.
void EncodeGguf(GgufType type, const std::vector<float>& values, std::string* out);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GGUF_TYPE_H_
