// What evaluations say of a job, in its summary.
#ifndef COXSWAIN_CONTROLLER_CLI_HELD_OUT_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_HELD_OUT_TEXT_H_

#include <string>

#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// "held-out loss: 4.2250 before, 3.1160 after (-26.2 %), ..." and a line's end. A job with early
// stopping exports its best checkpoint: then it is that one's loss, with its step.
std::string HeldOutText(const v1::Job& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_HELD_OUT_TEXT_H_
