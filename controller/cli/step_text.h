// One training step, rank by rank.
#ifndef COXSWAIN_CONTROLLER_CLI_STEP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_STEP_TEXT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// The fields of a StepDone event; an empty object when they cannot be read.
nlohmann::ordered_json StepJson(const v1::JobEvent& event);

// "step 5  loss ...  grad norm ...  learning rate ..." and a table of the ranks.
std::string StepText(const nlohmann::ordered_json& step);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_STEP_TEXT_H_
