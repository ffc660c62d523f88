// Which type each matrix of a GGUF model gets.
#ifndef COXSWAIN_CONTROLLER_EXPORT_GGUF_TYPES_H_
#define COXSWAIN_CONTROLLER_EXPORT_GGUF_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/files/gguf_type.h"
#include "common/model/model_config.h"

namespace coxswain::exports {

// general.file_type: what a file is as a whole. Source: llama.h, llama_ftype.
enum class GgufFileType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 7, kQ4_K_M = 15, kBF16 = 32 };

std::string_view GgufFileTypeName(GgufFileType type);  // "Q4_K_M"
// Of "f32", "f16", "bf16", "q8_0" or "q4_k_m"; nothing for another word.
std::optional<GgufFileType> GgufFileTypeOf(std::string_view word);
// Of matrices of which no rule says otherwise.
GgufType MainGgufType(GgufFileType type);

// Of matrix `name`, "blk.3.attn_v.weight", with rows of `cols`, or of a stack of such. Q4_K_M gives
// more bits to those matrices whose errors tell most:
//   Q6_K  the head, or the embedding that is the head too
//   Q6_K  attn_v, attn_qkv and ffn_down in the first eighth of the layers, the last, and every
//   third
//         between
//   Q5_K  the other attn_v of Llama and Qwen2 with 80 layers and groups of query heads
//   of 8 experts: Q8_0 attn_k and attn_v, Q5_K attn_output
// Rows that are no whole blocks get Q5_0 for Q4_K, Q5_1 for Q5_K and Q8_0 for Q6_K; where these do
// not fit either, F16. `model` has a GgufForm. Source: llama.cpp src/llama-quant.cpp
// (llama_tensor_get_type_impl, tensor_type_fallback); src/models/llama.cpp and qwen2.cpp for the 80
// layers.
GgufType TypeOfGgufMatrix(GgufFileType file, const model::ModelConfig& model,
                          const std::string& name, int64_t cols);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_GGUF_TYPES_H_
