// Finds the modules of a model that lora.target_modules names, as PEFT finds them.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_
#define COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// A module that may have a weight, with its whole name: "model.layers.0.self_attn.q_proj".
struct NamedModule {
  std::string name;
  bool adaptable = false;  // a linear of a block, the embedding or the head
  int64_t layer = -1;      // -1: outside the blocks
};
std::vector<NamedModule> ModulesOf(const model::ModelConfig& model);
// The name of an adaptable module, for messages. The modules of a model always have one.
const std::string& ExampleOf(const std::vector<NamedModule>& modules);

// The whole names of the modules that `targets` select, in ascending order. A pattern must match
// the whole name. Any other text is a whole name, or its end after a dot. all-linear selects every
// linear of the blocks. InvalidArgument: an invalid pattern.
absl::StatusOr<std::set<std::string>> MeantModules(const std::vector<std::string>& targets,
                                                   const std::vector<NamedModule>& modules);

// `targets` for model::WithLora. The last part of a name ("q_proj") and all-linear stay. A path
// ("self_attn.q_proj") and a pattern become the whole names of the modules that they select.
// InvalidArgument: a target selects nothing, or a module that is no linear of a block, embedding or
// head.
absl::StatusOr<std::vector<std::string>> TargetModules(const std::vector<std::string>& targets,
                                                       const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_
