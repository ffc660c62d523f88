// What PEFT calls a router.
#ifndef COXSWAIN_COMMON_MODEL_ROUTER_MODULE_H_
#define COXSWAIN_COMMON_MODEL_ROUTER_MODULE_H_

#include <string>

#include "common/model/block.h"

namespace coxswain::model {

// The module of `router`, a Kind::kRouter of `block`, as transformers 5 and PEFT have it:
// "mlp.gate", below Outside::layers and the number of the block. It lies beside the experts,
// whatever the files of the base call the block: those of Mixtral have "block_sparse_moe.gate".
std::string RouterModule(const Block& block, const TensorSpec& router);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_ROUTER_MODULE_H_
