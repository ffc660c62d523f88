// The command that continues a job: the user's own command line, ready to paste into a shell.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_RESUME_COMMAND_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_RESUME_COMMAND_H_

#include <string>
#include <vector>

#include "controller/cli/jobs/job_file.h"

namespace coxswain::cli {

// `word` for a POSIX shell, quoted if necessary.
std::string ShellQuoted(const std::string& word);

// "cox train 'my job.yaml' --set train.max_steps=40 --set checkpoint.resume=DIR". `file` holds the
// user's arguments, `flags` further whole arguments, e.g. "--threads", "2". An override of
// checkpoint.resume is left out. A job from standard input must be given there again.
std::string ResumeCommand(const JobFileArgs& file, const std::vector<std::string>& flags,
                          const std::string& checkpoint);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_RESUME_COMMAND_H_
