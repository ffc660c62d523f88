// What llama.cpp calls a family, its tensors and its settings in a GGUF file, and which models of
// the family it computes as we do. Source: llama.cpp convert_hf_to_gguf.py and src/llama-model.cpp.
#ifndef COXSWAIN_COMMON_MODEL_GGUF_FORM_H_
#define COXSWAIN_COMMON_MODEL_GGUF_FORM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/model/block.h"
#include "common/model/model_config.h"

namespace coxswain::model {

struct GgufName {
  std::string_view module;  // of Hugging Face, in a block below Outside::layers and its number
  std::string_view gguf;    // "attn_q"; of experts, whose module has a "*", the stack of all
  // The rows of each head are in pairs that rotate together, in place of two halves.
  bool pairs = false;
};

// What of config.json a ModelConfig does not hold.
struct GgufExtras {
  int64_t context = 0;    // max_position_embeddings
  bool head_dim = false;  // config.json names it
};

// "rope.freq_base", below the name of the architecture, and its value.
using GgufSetting = std::pair<std::string, std::variant<uint32_t, float>>;

struct GgufForm {
  std::string_view architecture = {};  // "qwen2"; empty: no GGUF is written of the family
  std::vector<GgufName> names = {};
  std::vector<GgufSetting> (*settings)(const ModelConfig& config,
                                       const GgufExtras& extras) = nullptr;
  bool llama3_rope = false;  // rotation "llama3" is known; else "default" alone
  bool biases = false;       // those of linears of blocks are known
  // Whether a layer has a window in a model that has any; null: none may have one.
  bool (*has_window)(int64_t layer) = nullptr;
  // Why a model of the family is not what llama.cpp computes; empty: it is. May be null.
  std::string (*refusal)(const ModelConfig& config) = nullptr;
};

// embed_tokens, the final norm, the head, and the linears and norms of a block, as most families
// have them.
std::vector<GgufName> UsualGgufNames();
// The same, with q and k in pairs.
std::vector<GgufName> PairedGgufNames();
// Extents, the base of the rotation, the epsilon of norms, and experts.
std::vector<GgufSetting> UsualGgufSettings(const ModelConfig& config, const GgufExtras& extras);
// The same with what llama.cpp's "llama" has besides.
std::vector<GgufSetting> LlamaGgufSettings(const ModelConfig& config, const GgufExtras& extras);

// What a file calls tensor `name` of the base, and how its rows lie. For a tensor of one expert or
// of all it is the stack, and `expert` the number, or -1.
struct GgufPlace {
  std::string name;  // "blk.0.attn_q.weight"
  bool pairs = false;
  int64_t expert = -1;
};
// NotFound: the form has no name for it.
absl::Status FindGgufPlace(const GgufForm& form, const Outside& outside, const std::string& name,
                           GgufPlace* place);

// Rows [heads, 2, half] become [heads, half, 2]; `values` are [rows, cols].
void PairRows(int64_t heads, int64_t rows, int64_t cols, float* values);

// Of a model with rotation "llama3": what its frequencies are divided by, [head_dim / 2], the
// tensor rope_freqs.weight. In float32, as the converter has it, so that the bytes are the same.
// Source: transformers _compute_llama3_parameters.
std::vector<float> Llama3Divisors(const ModelConfig& config);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_GGUF_FORM_H_
