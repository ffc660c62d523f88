// What every part of a job is made with.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_CONTEXT_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_CONTEXT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/records/deps.h"
#include "controller/driver/records/job_listener.h"
#include "controller/driver/records/job_record.h"

namespace coxswain::gang {
class GangSession;
}  // namespace coxswain::gang

namespace coxswain::driver {

class OutputHold;

// What a job asks of the table of all jobs.
struct JobHooks {
  std::function<void()> reschedule;  // a job or workers became available
  // Committed checkpoints of another job, newest first, for `resume: <job>[:step]`.
  std::function<absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>>(const std::string& resume)>
      resolve_checkpoints;
  // A host did not fit the job. A returned event says that the host is left out from now on.
  std::function<std::optional<v1::JobEvent>(const std::string& job, const v1::Error& error)>
      host_failed;
};

// Each job has one. It and all that it refers to outlive the parts of the job. Loop thread only.
struct JobContext {
  const Deps& deps;
  JobRecord& record;
  config::JobSpec& spec;  // JobPreparation changes it, nobody else
  OutputHold& output;
  const JobHooks& hooks;
  JobListener& listener;
  std::shared_ptr<gang::GangSession> session = nullptr;  // null: there is no gang
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_CONTEXT_H_
