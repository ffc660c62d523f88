// Formats the output of `cox describe`.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_DESCRIBE_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_DESCRIBE_TEXT_H_

#include <string>
#include <vector>

#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::cli {

// Identity, state, progress, data, memory, checkpoints, answers and the newest 20 of `events`.
// Sections without content are left out.
std::string DescribeText(const v1::Job& job, const std::vector<v1::JobEvent>& events,
                         int64_t now_unix_ms);

// Commands to type next for a job that a controller has.
std::string NextText(const v1::Job& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_DESCRIBE_TEXT_H_
