// adapter_config.json of PEFT, read as the keys of spec.lora.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_PEFT_CONFIG_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_PEFT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

struct PeftConfig {
  int64_t r = 0;
  std::optional<int64_t> gate_up_r = {};  // nullopt: r
  double alpha = 0;
  bool use_rslora = false;
  bool use_dora = false;
  // As in a job, without modules that the model lacks, and with those whose weights
  // target_parameters names.
  std::vector<std::string> target_modules = {};
  // Stacks of experts, with the names of lora.target_parameters, and weights of routers.
  std::vector<std::string> target_parameters = {};
  std::vector<std::string> modules_to_save = {};
  std::string path = {};  // path of the file
};

// nullopt: `directory` has no such file. InvalidArgument names file and key: it is no LoRA adapter,
// it adapts no module of `model`, or it has unsupported settings. Other errors as ReadFile.
absl::StatusOr<std::optional<PeftConfig>> ReadPeftConfig(const std::string& directory,
                                                         const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_PEFT_CONFIG_H_
