// What lora.modules_to_save trains in full beside an adapter, and what adapter files call it.
#ifndef COXSWAIN_COMMON_MODEL_SAVED_MODULES_H_
#define COXSWAIN_COMMON_MODEL_SAVED_MODULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/block.h"
#include "common/model/model_config.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// By index into `table` (of WithLora): whether the tensor is one of a module that `names` name. As
// in PEFT a name means every module whose path ends in it: "norm" all norms, "model.norm" the last.
// A tied head is the embedding: either name means the one matrix, which stays tied. InvalidArgument
// says what to do about an unknown module, a linear of the blocks (adapted or trained with all),
// one norm of q and k without the other, or a module that has an adapter.
absl::StatusOr<std::vector<bool>> SavedModules(const std::vector<Parameter>& table,
                                               const ModelConfig& config,
                                               const std::vector<std::string>& names);

// The names that an adapter_config.json lists for them: `names`, and those of embedding and head
// where the two are tied and one is named. PEFT then loads either from a tensor of its own.
std::vector<std::string> ListedModules(const ModelConfig& config,
                                       const std::vector<std::string>& names);

// The keys under which an adapter file holds a tensor: its name, with PEFT's prefix where it is one
// of the base; a tied embedding has a second one, as head.
std::vector<std::string> AdapterFileKeys(const ModelConfig& config, const Parameter& parameter);

// What PEFT calls a router.

// The module of `router`, a Kind::kRouter of `block`, as transformers 5 and PEFT have it:
// "mlp.gate", below Outside::layers and the number of the block. It lies beside the experts,
// whatever the files of the base call the block: those of Mixtral have "block_sparse_moe.gate".
std::string RouterModule(const Block& block, const TensorSpec& router);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_SAVED_MODULES_H_
