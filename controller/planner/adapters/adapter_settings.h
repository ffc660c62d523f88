// Compares the settings of an adapter with those of the job that continues to train it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTER_SETTINGS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTER_SETTINGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/config/parser/job_parser.h"
#include "common/model/model_config.h"

namespace coxswain::planner {

// Returns `parsed`, with the keys of spec.lora that the job leaves out taken from
// adapter_config.json in lora.init_from: rank, alpha, target modules, use_rslora, use_dora and
// modules_to_save. `parsed` comes from `yaml` and has no errors. It stays unchanged when the job
// starts from no adapter, the folder has no such file or the model cannot be read. InvalidArgument
// as CheckAdapterSettings. Runs in a lane.
absl::StatusOr<config::ParsedJob> TakeOverAdapter(config::ParsedJob parsed, const std::string& yaml,
                                                  const std::string& base_dir,
                                                  const config::ChosenResources& chosen = {});

// InvalidArgument: the adapter would compute something else under this job. The message names the
// key with both values when adapter_config.json in lora.init_from differs from the job. It names an
// unsupported feature: a bias, ranks or alphas that differ among modules, changed base weights.
// Modules are compared after their names are resolved in the model. OK for a folder without that
// file.
absl::Status CheckAdapterSettings(const config::JobSpec& job, const model::ModelConfig& model);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTERS_ADAPTER_SETTINGS_H_
