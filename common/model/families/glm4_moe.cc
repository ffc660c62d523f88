// Experts by sigmoid behind some dense layers, an MLP beside them; the first part of each head
// rotates, in halves. Source: transformers modeling_glm4_moe.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
