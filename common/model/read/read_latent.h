// What the config.json of models with latent attention has in common.
#ifndef COXSWAIN_COMMON_MODEL_READ_READ_LATENT_H_
#define COXSWAIN_COMMON_MODEL_READ_READ_LATENT_H_

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// All of a decoder with latent attention but its experts: ReadDecoder, the extents of the latents,
// biases, the rotation and the scale of scores. Absent keys are as in `defaults`. False after an
// error. Source: transformers modeling_deepseek_v3, modeling_glm4_moe_lite.
bool ReadLatentDecoder(ConfigKeys& keys, const LatentAttention& defaults, ModelConfig* config);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_READ_LATENT_H_
