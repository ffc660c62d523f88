// The architecture of a model.
#ifndef COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
#define COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/words.h"

namespace coxswain::model {

// Rotary position embedding.
struct Rope {
  // "default" | "linear" | "dynamic" | "llama3" | "yarn" | "longrope". Source of each: transformers
  // modeling_rope_utils.
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;            // linear, llama3, yarn
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  // llama3, yarn, longrope; dynamic: up to this length it is default, and longer is not supported.
  int64_t original_max_position = 8192;
  // yarn, 0 otherwise: rotations within the original length above which a frequency stays, below
  // which it is divided by `factor`; whether these bounds are rounded to whole dimensions; what
  // cosines and sines are multiplied by.
  double beta_fast = 0;
  double beta_slow = 0;
  bool truncate = false;
  double attention_factor = 0;  // longrope too
  // longrope: what frequencies are divided by in documents of at most original_max_position tokens,
  // and in longer ones.
  std::vector<double> short_factors = {}, long_factors = {};
  // Leading elements of a head that rotate, even; 0: all. Of latent attention: the last.
  int64_t rotated = 0;
  bool interleaved = false;  // pairs are neighbours; else half-split (rotate_half)
  // b > 0: queries are multiplied by 1 + b log(1 + floor(position / original_max_position)).
  double query_scale_beta = 0;

  bool operator==(const Rope&) const = default;
};

// Rows of embedding and head that a job adds to those of its base: `count` of them behind the
// `known` that have a token, from their mean. They take free rows of the base first.
struct AddedTokens {
  int64_t count = 0;  // 0: none, and the others 0
  int64_t known = 0;
  int64_t base_rows = 0;  // of the base's tensors, >= known
  bool operator==(const AddedTokens&) const = default;
};

// The experts of the layers that have some in place of one MLP.
struct Mixture {
  int64_t experts = 0;       // of a layer; 0: the model has none
  int64_t chosen = 0;        // of a token
  int64_t width = 0;         // intermediate elements of an expert
  int64_t shared_width = 0;  // of an MLP that every token goes through beside; 0: none
  bool shared_gate = false;  // whose output sigmoid(x w) scales
  // "softmax" | "sigmoid": of the router's logits, in float32. sigmoid: a correction bias decides
  // who is chosen.
  std::string score = "softmax";
  int64_t groups = 1, top_groups = 1;  // of experts; of which a token's experts are in so many
  bool renormalise = false;            // the weights of a token's experts
  double scale = 1.0;                  // of these weights
  bool router_bias = false;
  double aux_loss = 0;  // factor of the balancing loss that the model was trained by
  std::vector<int64_t> dense_layers = {};  // rising: those with one MLP of intermediate_size

  bool operator==(const Mixture&) const = default;
};

// Keys and values of all heads come from a latent of each token, and so may queries. A head of q
// and k has elements that do not rotate, then those that do; the latter of k are of all heads.
struct LatentAttention {
  int64_t q_rank = 0;          // of the latent of queries; 0: they have none
  int64_t kv_rank = 0;         // of that of keys and values
  int64_t nope = 0, rope = 0;  // of a head of q and k: do not rotate, rotate (even)
  int64_t value = 0;           // of a head of v

  bool operator==(const LatentAttention&) const = default;
};

struct ModelConfig {
  std::string architecture;  // e.g. "Qwen2ForCausalLM"
  int64_t vocab_size = 0;    // max(base_rows, known + count) with added tokens
  AddedTokens added_tokens = {};
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // of q and k, even; nope + rope of latent attention
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
  double attention_softcap = 0;          // c > 0: scores become c tanh(score / c)
  double logit_scale = 1.0;
  double logit_softcap = 0;  // likewise of logits
  Rope rope;
  std::optional<Rope> window_rope = {};  // of layers with a window, where it is another
  std::vector<int64_t> layer_windows;    // one per layer: last positions visible, 0 = full causal
  std::vector<int64_t> unrotated_layers = {};  // rising: those whose q and k are not rotated
  // Of the checkpoint's files: the linears of blocks (common/files/weights/packed_matrix.h);
  // kMxfp4: the experts (blocks_and_scales.h).
  Quantization quantization = Quantization::kNone;
  Mixture mixture = {};
  std::optional<LatentAttention> latent = {};
  // Rows of a score head in the place of that of tokens: score.weight [labels, hidden], of rewards
  // and classes; 0: the head is of tokens. A new one is not in the files.
  int64_t labels = 0;
  bool new_head = false;
  // Of a model with a head of scores: the last other token of a document is scored.
  std::optional<int64_t> pad_token = {};

  bool has_experts(int64_t layer) const {
    const std::vector<int64_t>& dense = mixture.dense_layers;
    return mixture.experts > 0 && !std::binary_search(dense.begin(), dense.end(), layer);
  }
  double score_scale() const {
    return attention_scale > 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  }
  bool rotates(int64_t layer) const {
    return !std::binary_search(unrotated_layers.begin(), unrotated_layers.end(), layer);
  }

  // The rotations, and which of them a layer has.
  std::vector<Rope> ropes() const {
    return window_rope ? std::vector<Rope>{rope, *window_rope} : std::vector<Rope>{rope};
  }
  int64_t rope_of(int64_t layer) const {
    return window_rope && layer_windows[static_cast<size_t>(layer)] > 0 ? 1 : 0;
  }
  int64_t head_rows() const { return labels > 0 ? labels : vocab_size; }
  int64_t value_dim() const { return latent ? latent->value : head_dim; }
  int64_t rotated_dim() const { return rope.rotated > 0 ? rope.rotated : head_dim; }

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_MODEL_CONFIG_H_
