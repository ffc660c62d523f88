// The command that goes on with a job: as the user gave it, to be pasted into a shell.
#ifndef COXSWAIN_CONTROLLER_CLI_RESUME_COMMAND_H_
#define COXSWAIN_CONTROLLER_CLI_RESUME_COMMAND_H_

#include <string>
#include <vector>

#include "controller/cli/job_file.h"

namespace coxswain::cli {

// One word of a POSIX shell, in quotes where it needs them.
std::string ShellQuoted(const std::string& word);

// "cox train 'my job.yaml' --set train.max_steps=40 --set checkpoint.resume=DIR". `file` holds what
// the user gave, `flags` whole arguments, e.g. "--threads", "2". An override of checkpoint.resume
// is left out. A job from standard input is read from there again.
std::string ResumeCommand(const JobFileArgs& file, const std::vector<std::string>& flags,
                          const std::string& checkpoint);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_RESUME_COMMAND_H_
