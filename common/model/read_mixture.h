// What the config.json of mixtures of experts has in common.
#ifndef COXSWAIN_COMMON_MODEL_READ_MIXTURE_H_
#define COXSWAIN_COMMON_MODEL_READ_MIXTURE_H_

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// The number of experts, in either spelling, and those of a token. Fails more experts than a router
// may have, and more of a token than there are. A file without experts: 0.
void ReadExperts(ConfigKeys& keys, int64_t experts, int64_t chosen, Mixture* mixture);

// The factor of the balancing loss that transformers trains with: router_aux_loss_coef where
// output_router_logits is true, else 0.
double ReadAuxLoss(ConfigKeys& keys);

// The layers that Qwen's mixtures leave dense: mlp_only_layers, and all but every
// decoder_sparse_step-th. Source: transformers modeling_qwen2_moe.
std::vector<int64_t> ReadDenseLayers(ConfigKeys& keys, int64_t layers);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_MIXTURE_H_
