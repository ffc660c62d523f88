// Latent attention as DeepSeek-V3's, with layers that are dense or have experts by a list.
// Source: transformers modeling_glm4_moe_lite, configuration_glm4_moe_lite.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_latent.h"
#include "common/model/read/read_mixture.h"

namespace coxswain::model {
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
