// Which stacks of experts a PEFT adapter adapts.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTED_STACKS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTED_STACKS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// The stacks that `names` mean, as lora.target_parameters names them: "mlp.experts.down_proj". A
// name is a whole one, or its end after a dot; what means no stack is left out, as PEFT does.
// InvalidArgument: a name means a stack in some blocks only.
absl::StatusOr<std::vector<std::string>> MeantStacks(const std::vector<std::string>& names,
                                                     const model::ModelConfig& model);

// The whole names of those stacks, of every block: "model.layers.0.mlp.experts.down_proj".
std::set<std::string> NamesOfStacks(const std::vector<std::string>& names,
                                    const model::ModelConfig& model);

// Those among them that hold gate and up.
std::set<std::string> NamesOfGateUpStacks(const std::vector<std::string>& names,
                                          const model::ModelConfig& model);

// InvalidArgument: a target is a linear of single experts, or a stack in some blocks only; the
// message says which key to set.
absl::Status CheckTargetsOfExperts(const config::LoraSpec& lora, const model::ModelConfig& model);

// The stacks of which the adapter in `directory` holds the linears of every expert by itself, as
// vLLM and PEFT before transformers 5 write them. None where it has no adapter_model.safetensors.
std::vector<std::string> StacksByExpert(const std::string& directory,
                                        const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTED_STACKS_H_
