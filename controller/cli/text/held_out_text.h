// The held-out loss of a job, for its summary.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_HELD_OUT_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_HELD_OUT_TEXT_H_

#include <string>

#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// "held-out loss: 4.2250 before, 3.1160 after (-26.2 %), ..." and a line feed. A job with early
// stopping exports its best checkpoint: then "after" is the loss of that checkpoint, with its step.
std::string HeldOutText(const v1::Job& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_HELD_OUT_TEXT_H_
