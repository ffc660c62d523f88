// Latent attention, and experts by sigmoid in groups behind some dense layers, an MLP beside them.
// Source: transformers modeling_deepseek_v3, configuration_deepseek_v3.
#include "common/model/families/families.h"
#include "common/model/read/read_latent.h"
#include "common/model/read/read_mixture.h"

namespace coxswain::model {
namespace {

void ReadDeepseekV3(ConfigKeys& keys, ModelConfig* config) {
  const LatentAttention latent{
      .q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128};
  if (!ReadLatentDecoder(keys, latent, config)) return;
  ReadSigmoidRouter(
      keys,
      {.experts = 256, .chosen = 8, .width = 2048, .groups = 8, .top_groups = 4, .scale = 2.5},
      &config->mixture);
  config->mixture.dense_layers = ReadFirstDense(keys, config->num_layers, 3);
}

Block DeepseekBlock(const ModelConfig& config, int64_t layer) {
  return LatentExpertsBlock(config, layer, {.bias = config.output_bias}, {});
}

}  // namespace

const Family kDeepseekV3 = {
    .architecture = "DeepseekV3ForCausalLM",
    .score_class = "DeepseekV3ForSequenceClassification",
    .model_type = "deepseek_v3",
    .checkpoints = "DeepSeek-V3 and R1, Moonlight, their FP8 dequantised",
    .read = &ReadDeepseekV3,
    .block = &DeepseekBlock,
    .harmless = {"aux_loss_alpha", "ep_size", "moe_layer_freq", "num_nextn_predict_layers",
                 "output_router_logits", "pretraining_tp", "qk_head_dim", "scoring_func", "seq_aux",
                 "topk_method"},
    .predicts_more = true};

}  // namespace coxswain::model
