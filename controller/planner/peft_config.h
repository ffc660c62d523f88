// adapter_config.json of PEFT, read as the keys of spec.lora.
#ifndef COXSWAIN_CONTROLLER_PLANNER_PEFT_CONFIG_H_
#define COXSWAIN_CONTROLLER_PLANNER_PEFT_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

struct PeftConfig {
  int64_t r = 0;
  double alpha = 0;
  bool use_rslora = false;
  bool use_dora = false;
  std::vector<std::string> target_modules = {};  // as a job does, without what the model lacks
  std::vector<std::string> modules_to_save = {};
  std::string path = {};  // of the file
};

// nullopt: `directory` has no such file. InvalidArgument names file and key: no LoRA adapter, one
// that adapts no module of `model`, or settings that are not computed here. Else as ReadFile.
absl::StatusOr<std::optional<PeftConfig>> ReadPeftConfig(const std::string& directory,
                                                         const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_PEFT_CONFIG_H_
