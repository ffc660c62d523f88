// Shows where a job's settings differ from the defaults of other tools, for users who compare runs.
#ifndef COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_
#define COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::planner {

struct UnusualSetting {
  std::string key;      // of the job's spec: "lora.loraplus_lr_ratio"
  std::string value;    // value of the job, set or by default
  std::string usual;    // value of the tools
  std::string tools;    // the tools that have this default
  std::string meaning;  // effect of the job's value: "learning rate of B x 16 (LoRA+)"

  // "lora.loraplus_lr_ratio is 16: learning rate of B x 16 (LoRA+); usual 1 (peft, ...)".
  std::string Text() const;
};

// Lists unusual settings of the job that influence what is learnt. It leaves out settings on which
// the tools disagree (learning rate, schedule, passes).
std::vector<UnusualSetting> UnusualSettings(const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_
