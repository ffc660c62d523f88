// Formats one training step, rank by rank.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_STEP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_STEP_TEXT_H_

#include <string>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain::cli {

// `value`, or 0 when it is not finite, for text and curves.
double FiniteOrZero(double value);

// "step 5  loss ...  grad norm ...  learning rate ..." and a table of the ranks.
std::string StepText(const v1::StepDone& step);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_STEP_TEXT_H_
