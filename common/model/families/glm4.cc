// Four norms a block; the first half of each head rotates, pairs being neighbours.
// Source: transformers modeling_glm4.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
