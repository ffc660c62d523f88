// The settings that an adapter was trained with, against those of the job that goes on from it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/chosen_resources.h"
#include "common/config/job_parser.h"
#include "common/config/job_spec.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// `parsed`, which `yaml` gave without an error, with the keys of spec.lora that it leaves out as
// adapter_config.json in lora.init_from has them: rank, alpha, target modules, use_rslora, use_dora
// and modules_to_save. Unchanged where the job starts from no adapter, the folder has no such file
// or the model cannot be read. InvalidArgument as CheckAdapterSettings. In a lane.
absl::StatusOr<config::ParsedJob> TakeOverAdapter(config::ParsedJob parsed, const std::string& yaml,
                                                  const std::string& base_dir,
                                                  const config::ChosenResources& chosen = {});

// InvalidArgument names the key and both values where adapter_config.json in lora.init_from says
// otherwise than the job, or names what is not computed here (a bias, ranks or alphas that differ
// among modules, changed base weights): the adapter would compute something else. Modules are
// compared as they are in the model, however they are named. A folder without that file says
// nothing.
absl::Status CheckAdapterSettings(const config::JobSpec& job, const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_
