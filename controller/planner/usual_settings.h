// What other tools train with where a job says nothing, and where a job differs from it: a run that
// is compared with theirs has to know.
#ifndef COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_
#define COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_

#include <string>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::planner {

struct UnusualSetting {
  std::string key;      // of the job's spec: "lora.loraplus_lr_ratio"
  std::string value;    // the job's, set or by default
  std::string usual;    // the tools'
  std::string tools;    // whose default the usual value is
  std::string meaning;  // of the job's value: "learning rate of B x 16 (LoRA+)"

  // "lora.loraplus_lr_ratio is 16: learning rate of B x 16 (LoRA+); usual 1 (peft, ...)".
  std::string Text() const;
};

// Lists the settings of the job that decide what is learnt and are not the usual ones. Settings on
// which the tools disagree with each other (learning rate, schedule, passes) are left out.
std::vector<UnusualSetting> UnusualSettings(const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_USUAL_SETTINGS_H_
