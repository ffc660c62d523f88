// What every part of a job is made with, and what it tells the job.
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
#include "controller/driver/records/job_record.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::failure {
struct Verdict;
}  // namespace coxswain::failure

namespace coxswain::gang {
class GangSession;
}  // namespace coxswain::gang

namespace coxswain::driver {

class OutputHold;
struct ExportAttempt;
struct PushedTo;

// Called on the loop. Within a call the listener may start or stop any part, also the one that
// calls. What only answers one call of a part is a callback of that call, not an event here.
class JobListener {
 public:
  virtual ~JobListener() = default;

  // JobPreparation: there is a curriculum, or `failed` says why none can be made.
  virtual void OnPrepared(const std::optional<v1::Error>& failed) = 0;
  // JobAttempt: the job becomes FORMING now; false: it cannot.
  virtual bool OnPlanned() = 0;
  // JobAttempt, OutputHold: the attempt to run has failed; another one may not.
  virtual void OnAttemptFailed(const v1::Error& error) = 0;
  // JobPreparation, JobAttempt, JobProof: the job fails, for it would fail again in the same way.
  virtual void OnHopeless(const v1::Error& error) = 0;
  // JobReadoption, JobProof: the gang that is awaited or there cannot continue; it must be dropped.
  virtual void OnGangLost(const std::string& reason) = 0;
  // JobRecovery: the attempt ends now. Abort its gang, then fail the job or try it again.
  virtual void OnJudged(const failure::Verdict& verdict) = 0;
  // JobRecovery: a wait is over.
  virtual void OnRetryDue() = 0;
  // JobExport: one attempt has ended.
  virtual void OnExported(const ExportAttempt& attempt) = 0;
  // JobPush: likewise.
  virtual void OnPushed(const absl::StatusOr<PushedTo>& pushed) = 0;
};

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
