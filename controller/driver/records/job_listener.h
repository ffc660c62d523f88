// What the parts of a job tell it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_LISTENER_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_LISTENER_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::failure {
struct Verdict;
}  // namespace coxswain::failure

namespace coxswain::driver {

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

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_LISTENER_H_
