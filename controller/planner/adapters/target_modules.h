// Finds what of a model lora.target_modules and lora.target_parameters name, as PEFT finds it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_TARGET_MODULES_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_TARGET_MODULES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// A module that may have a weight, with its whole name: "model.layers.0.self_attn.q_proj".
struct NamedModule {
  std::string name;
  bool adaptable = false;     // a linear of a block, the embedding or the head
  int64_t layer = -1;         // -1: outside the blocks
  bool router = false;        // its name is that of model::RouterModule
  std::string in_files = {};  // what the files of the base call it
};
std::vector<NamedModule> ModulesOf(const model::ModelConfig& model);
// The name of an adaptable module, for messages. The modules of a model always have one.
const std::string& ExampleOf(const std::vector<NamedModule>& modules);

// The whole names of the modules that `targets` select, in ascending order. A pattern must match
// the whole name. Any other text is a whole name, or its end after a dot. all-linear selects every
// linear of the blocks, no router. InvalidArgument: an invalid pattern.
absl::StatusOr<std::set<std::string>> MeantModules(const std::vector<std::string>& targets,
                                                   const std::vector<NamedModule>& modules);

// The routers whose weights lora.target_parameters names, whole or by an end: "mlp.gate.weight".
std::set<std::string> MeantRouters(const std::vector<std::string>& parameters,
                                   const std::vector<NamedModule>& modules);

// What model::WithLora takes.
struct AdapterTargets {
  std::vector<std::string> modules, parameters;
};

// The targets of a job. The last part of a name ("q_proj") and all-linear stay. A path
// ("self_attn.q_proj") and a pattern become the whole names of the modules that they select.
// Routers become parameters, as in PEFT: they have a weight and are no linear. InvalidArgument: a
// target selects nothing, or a module that is neither router, linear of a block, embedding nor
// head; or a router under dropout or DoRA.
absl::StatusOr<AdapterTargets> TargetsOf(const config::LoraSpec& lora,
                                         const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_TARGET_MODULES_H_
