// The parameter table of a model and its adapter: one list that load, init, optimizer, checkpoint
// and export all walk.
#ifndef COXSWAIN_COMMON_MODEL_PARAMETER_TABLE_H_
#define COXSWAIN_COMMON_MODEL_PARAMETER_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/block.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// Every tensor of the base model in memory order (Parameter::packed says what is adjacent), all
// frozen. A tied model has no lm_head entry.
std::vector<Parameter> BaseParameterTable(const Architecture& model);
// Of what the config's family makes of it.
std::vector<Parameter> BaseParameterTable(const ModelConfig& config);

// Whether tensor `number` of a block is a stack of experts whose product goes into a gate: that of
// gate and up.
bool FeedsGate(const Block& block, int32_t number);

struct LoraTable {
  int64_t rank = 0;
  // Last parts of module names such as "q_proj", "lm_head" or "embed_tokens", whole names such as
  // "model.layers.0.self_attn.q_proj", or {"all-linear"} = every linear of the blocks.
  std::vector<std::string> targets;
  bool dora = false;  // magnitudes too
  // Ends of the names of stacks of experts, "mlp.experts.down_proj", and of the weights of routers,
  // "mlp.gate.weight".
  std::vector<std::string> parameters = {};
  int64_t gate_up_rank = 0;  // of stacks whose product goes into a gate; 0: rank
};

// Appends, behind the tensors of each unit, LoRA A and B of every target linear and of the routers
// and stacks among the parameters. A of linears that
// share an input (q,k,v; gate,up) are adjacent, then their B, then their magnitudes. Names are PEFT
// keys: base_model.model.<module>.lora_A.weight, .lora_B.weight, .lora_magnitude_vector.
// Of a router, the module is model::RouterModule.
// Of stacks of experts, A [experts rank, in] and B [experts out, rank] lie by expert; PEFT nests
// their wrappers, so that the stack with the inner one is .base_layer of the other.
// Of an embedding they are .lora_embedding_A and .lora_embedding_B. InvalidArgument lists the known
// modules for an unknown one; Unimplemented: DoRA of one outside the blocks.
absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const Architecture& model, const LoraTable& lora);
absl::StatusOr<std::vector<Parameter>> WithLora(std::vector<Parameter> base,
                                                const ModelConfig& config, const LoraTable& lora);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_PARAMETER_TABLE_H_
