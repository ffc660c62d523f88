// The modules that lora.target_modules means, found in a model as PEFT finds them.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_
#define COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// A module that may have a weight of its own: its whole name, "model.layers.0.self_attn.q_proj".
struct NamedModule {
  std::string name;
  bool adaptable = false;  // a linear of a block, the embedding or the head
  int64_t layer = -1;      // -1: outside the blocks
};
std::vector<NamedModule> ModulesOf(const model::ModelConfig& model);
// The name of one that may be adapted, for messages; `modules` are of a model, so there is one.
const std::string& ExampleOf(const std::vector<NamedModule>& modules);

// The whole names of what `targets` mean, rising: a pattern matches the whole name, any other text
// is the name or the end of it behind a dot, all-linear every linear of the blocks.
// InvalidArgument: a pattern that is none.
absl::StatusOr<std::set<std::string>> MeantModules(const std::vector<std::string>& targets,
                                                   const std::vector<NamedModule>& modules);

// `targets` for model::WithLora: the last part of a name ("q_proj") and all-linear stay; a path
// ("self_attn.q_proj") and a pattern become the whole names of what they mean. InvalidArgument: one
// that means nothing, or a module that is no linear of a block, embedding or head.
absl::StatusOr<std::vector<std::string>> TargetModules(const std::vector<std::string>& targets,
                                                       const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TARGET_MODULES_H_
