// The settings that an adapter was trained with, against those of the job that goes on from it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_
#define COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_

#include "absl/status/status.h"
#include "common/config/job_spec.h"

namespace coxswain::planner {

// InvalidArgument names the key and both values where adapter_config.json in lora.init_from says
// another r, alpha, rsLoRA or DoRA than the job, or uses what is not supported (a bias, patterns of
// ranks or alphas): the adapter would compute something else. A folder without that file says
// nothing.
absl::Status CheckAdapterSettings(const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_ADAPTER_SETTINGS_H_
