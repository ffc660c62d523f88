// Stops the job of `cox train` after Ctrl-C or SIGTERM. `cox train` owns the job's processes, which
// end with it.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_STOP_TRAINING_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_STOP_TRAINING_H_

#include <functional>
#include <string>

#include "controller/cli/command/cox.h"

namespace coxswain::cli {

// Cancels the job with a checkpoint and waits for that at most 30 s. Says on stderr what was saved
// and how to continue; `resume` makes that command from the checkpoint's directory. Returns true
// when a second interrupt ended the wait: then do not wait for the processes either.
bool StopTraining(Cox* cox, const std::string& id,
                  const std::function<std::string(const std::string& checkpoint)>& resume);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_STOP_TRAINING_H_
