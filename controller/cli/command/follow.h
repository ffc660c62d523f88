// Follows a job to its end, across lost connections and restarts of the controller.
#ifndef COXSWAIN_CONTROLLER_CLI_COMMAND_FOLLOW_H_
#define COXSWAIN_CONTROLLER_CLI_COMMAND_FOLLOW_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/command/cox.h"
#include "controller/cli/text/progress_view.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::cli {

struct FollowOptions {
  int64_t after_event_id = 0;
  ProgressMode progress = ProgressMode::kNone;
  int64_t timeout_ms = 0;  // 0: none
  // Called with every event once, in order. When it returns false, FollowJob returns. May be null.
  std::function<bool(const v1::JobEvent&)> on_event;
  // Called several times a second. Its error ends FollowJob. May be null.
  std::function<absl::Status()> check;
};

// Returns the job when it is terminal or `on_event` ended it. Cancelled: interrupted.
// DeadlineExceeded: timeout. When the controller goes away, waits for it for a minute.
absl::StatusOr<v1::Job> FollowJob(Cox* cox, const std::string& job, const FollowOptions& options);

// All events of the job up to now.
absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(Client* client, const std::string& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_COMMAND_FOLLOW_H_
