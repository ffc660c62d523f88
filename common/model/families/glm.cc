// GLM-4, dense and with experts.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_latent.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Four norms a block; the first half of each head rotates, pairs being neighbours.
// Source: transformers modeling_glm4.

namespace {

void ReadGlm4(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = keys.Bool("attention_bias", true);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1.5625e-7);
  config->rope = ReadRope(keys, {.theta = 10000.0, .partial = 0.5}, config->head_dim);
  config->rope.interleaved = true;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

Block GlmBlock(const ModelConfig& config, int64_t layer) {
  return SandwichBlock(config, layer,
                       {.behind_attention = "post_self_attn_layernorm",
                        .before_mlp = "post_attention_layernorm",
                        .behind_mlp = "post_mlp_layernorm"},
                       UsualAttention(config), {.gate_up = "mlp.gate_up_proj"});
}

}  // namespace

const Family kGlm4 = {.architecture = "Glm4ForCausalLM",
                      .score_class = "Glm4ForSequenceClassification",
                      .model_type = "glm4",
                      .checkpoints = "GLM-4 9B and 32B 0414",
                      .read = &ReadGlm4,
                      .block = &GlmBlock,
                      .harmless = {}};

// Experts by sigmoid behind some dense layers, an MLP beside them; the first part of each head
// rotates, in halves. Source: transformers modeling_glm4_moe.

namespace {

void ReadGlm4Moe(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = keys.Bool("attention_bias", false);
  config->qk_norm = keys.Bool("use_qk_norm", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, {.theta = 10000.0, .partial = 0.5}, config->head_dim);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
  ReadSigmoidRouter(keys, {.experts = 128, .chosen = 8, .width = 1408}, &config->mixture);
  config->mixture.dense_layers = ReadFirstDense(keys, config->num_layers, 1);
}

Block GlmExpertsBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config), {});
}

}  // namespace

const Family kGlm4Moe = {.architecture = "Glm4MoeForCausalLM",
                         .model_type = "glm4_moe",
                         .checkpoints = "GLM-4.5, GLM-4.5-Air, GLM-4.6, GLM-4.7",
                         .read = &ReadGlm4Moe,
                         .block = &GlmExpertsBlock,
                         .harmless = {"num_nextn_predict_layers", "output_router_logits"},
                         .predicts_more = true};

// Latent attention as DeepSeek-V3's, with layers that are dense or have experts by a list.
// Source: transformers modeling_glm4_moe_lite, configuration_glm4_moe_lite.

namespace {

// mlp_layer_types; without them the first layer is dense, whatever first_k_dense_replace says.
std::vector<int64_t> ReadDenseTypes(ConfigKeys& keys, int64_t layers) {
  if (!keys.Has("mlp_layer_types")) return {0};
  const nlohmann::json& types = keys["mlp_layer_types"];
  if (!types.is_array() || types.size() != static_cast<size_t>(layers)) {
    keys.Fail(absl::StrCat("mlp_layer_types must be a list of ", layers, " entries"));
    return {};
  }
  std::vector<int64_t> dense;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const nlohmann::json& type = types[static_cast<size_t>(layer)];
    if (type == "dense") {
      dense.push_back(layer);
    } else if (type != "sparse") {
      keys.Fail(absl::StrCat("mlp_layer_types[", layer, "] is ", type.dump(),
                             "; supported: dense, sparse"));
    }
  }
  return dense;
}

void ReadGlm4MoeLite(ConfigKeys& keys, ModelConfig* config) {
  const LatentAttention latent{
      .q_rank = 768, .kv_rank = 512, .nope = 192, .rope = 64, .value = 256};
  if (!ReadLatentDecoder(keys, latent, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  ReadSigmoidRouter(keys, {.experts = 64, .chosen = 4, .width = 1536, .scale = 1.8},
                    &config->mixture);
  config->mixture.dense_layers = ReadDenseTypes(keys, config->num_layers);
}

Block GlmLatentBlock(const ModelConfig& config, int64_t layer) {
  return LatentExpertsBlock(config, layer, {.bias = config.output_bias}, {});
}

}  // namespace

const Family kGlm4MoeLite = {
    .architecture = "Glm4MoeLiteForCausalLM",
    .model_type = "glm4_moe_lite",
    .checkpoints = "GLM-4.7-Flash",
    .read = &ReadGlm4MoeLite,
    .block = &GlmLatentBlock,
    .harmless = {"first_k_dense_replace", "num_nextn_predict_layers", "output_router_logits",
                 "pretraining_tp", "qk_head_dim", "scoring_func", "topk_method"},
    .predicts_more = true};

}  // namespace coxswain::model
