// The architecture of a model, read from a Hugging Face config.json of either dialect.
#ifndef COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
#define COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::model {

// Rotary position embedding, half-split (rotate_half) layout.
struct Rope {
  std::string type = "default";  // "default" | "llama3"
  double theta = 10000.0;
  // llama3 scaling only. Source: transformers modeling_rope_utils, _compute_llama3_parameters.
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position = 8192;

  bool operator==(const Rope&) const = default;
};

struct ModelConfig {
  std::string architecture;  // e.g. "Qwen2ForCausalLM"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // even
  double rms_norm_eps = 1e-6;
  bool tie_embeddings = false;  // lm_head shares the embedding matrix
  bool qkv_bias = false;
  bool output_bias = false;  // bias of the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;  // per-head RMSNorm of q and k before RoPE (Qwen3)
  Rope rope;
  std::vector<int64_t> layer_windows;  // one per layer: last positions visible, 0 = full causal

  bool operator==(const ModelConfig&) const = default;
};

// Reads `directory`/config.json. InvalidArgument names the file and key; Unimplemented names the
// architecture and those supported (Qwen2, Qwen3, Llama, Mistral); NotFound names the missing file.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
