// What the config.json of mixtures of experts has in common.
#ifndef COXSWAIN_COMMON_MODEL_READ_READ_MIXTURE_H_
#define COXSWAIN_COMMON_MODEL_READ_READ_MIXTURE_H_

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// The number of experts, in either spelling, and those of a token. Fails more experts than a router
// may have, and more of a token than there are. A file without experts: 0.
void ReadExperts(ConfigKeys& keys, int64_t experts, int64_t chosen, Mixture* mixture);

// Routers by sigmoid, as DeepSeek's: experts in groups, chosen by a corrected score, and one MLP of
// n_shared_experts widths beside. Absent keys are as in `defaults`. Fails groups that leave a token
// no choice. Source: transformers modeling_glm4_moe, modeling_deepseek_v3.
void ReadSigmoidRouter(ConfigKeys& keys, const Mixture& defaults, Mixture* mixture);

// first_k_dense_replace: so many layers are dense.
std::vector<int64_t> ReadFirstDense(ConfigKeys& keys, int64_t layers, int64_t otherwise);

// The factor of the balancing loss that transformers trains with: router_aux_loss_coef where
// output_router_logits is true, else 0.
double ReadAuxLoss(ConfigKeys& keys);

// The layers that Qwen's mixtures leave dense: mlp_only_layers, and all but every
// decoder_sparse_step-th. Source: transformers modeling_qwen2_moe.
std::vector<int64_t> ReadDenseLayers(ConfigKeys& keys, int64_t layers);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_READ_MIXTURE_H_
