// The architecture of a model.
#ifndef COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
#define COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::model {

// Rotary position embedding, half-split (rotate_half) layout.
struct Rope {
  // "default" | "linear" | "dynamic" | "llama3" | "yarn". Source of each: transformers
  // modeling_rope_utils.
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;            // linear, llama3, yarn
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  // llama3, yarn; dynamic: up to this length it is default, and longer is not supported.
  int64_t original_max_position = 8192;
  // yarn, 0 otherwise: rotations within the original length above which a frequency stays, below
  // which it is divided by `factor`; whether these bounds are rounded to whole dimensions; what
  // cosines and sines are multiplied by.
  double beta_fast = 0;
  double beta_slow = 0;
  bool truncate = false;
  double attention_factor = 0;

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
  bool qk_norm = false;                // per-head RMSNorm of q and k before RoPE (Qwen3)
  std::string activation = "silu";     // of the gate: "silu" | "gelu_tanh" | "gelu"
  bool norm_weights_from_one = false;  // norms multiply by 1 + weight
  double embedding_scale = 1.0;
  bool embedding_scale_rounded = false;  // to the compute dtype, before it multiplies
  double attention_scale = 0;            // of scores; 0: 1 / sqrt(head_dim)
  double logit_scale = 1.0;
  Rope rope;
  std::vector<int64_t> layer_windows;  // one per layer: last positions visible, 0 = full causal
  std::vector<int64_t> unrotated_layers = {};  // rising: those whose q and k are not rotated

  double score_scale() const {
    return attention_scale > 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  }
  bool rotates(int64_t layer) const {
    return !std::binary_search(unrotated_layers.begin(), unrotated_layers.end(), layer);
  }

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
