// What `cox train` does after Ctrl-C or SIGTERM: the job's processes are its own and end with it.
#ifndef COXSWAIN_CONTROLLER_CLI_STOP_TRAINING_H_
#define COXSWAIN_CONTROLLER_CLI_STOP_TRAINING_H_

#include <functional>
#include <string>

#include "controller/cli/cox.h"

namespace coxswain::cli {

// Cancels the job with a checkpoint, waits for it at most 30 s, and says on stderr what was saved
// and how to go on: `resume` makes the command, of a checkpoint's directory. A second interrupt
// ends the wait: then true, and the processes are not to be waited for either.
bool StopTraining(Cox* cox, const std::string& id,
                  const std::function<std::string(const std::string& checkpoint)>& resume);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_STOP_TRAINING_H_
