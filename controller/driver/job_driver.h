// The life of one job: prepare data, form a gang, run its program, recover, export.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "controller/driver/deps.h"
#include "controller/driver/job_attempt.h"
#include "controller/driver/job_checkpoints.h"
#include "controller/driver/job_export.h"
#include "controller/driver/job_incidents.h"
#include "controller/driver/job_preparation.h"
#include "controller/driver/job_readoption.h"
#include "controller/driver/job_record.h"
#include "controller/driver/job_recovery.h"
#include "controller/driver/output_hold.h"
#include "controller/driver/training.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

struct JobHooks {
  std::function<void()> reschedule;  // a job or workers became available
  // Committed checkpoints of another job, newest first, for `resume: <job>[:step]`.
  std::function<absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>>(const std::string& resume)>
      resolve_checkpoints;
  // A host did not fit the job. What comes back is to be told: it is left out from now on.
  std::function<std::optional<v1::JobEvent>(const std::string& job, const v1::Error& error)>
      host_failed;
};

// Loop thread only. It owns the program of its job and, while that runs, one session with its gang;
// to end an attempt is to give the session away. What has a state of its own is a part.
// job_driver.cc: what users and the table of jobs ask; job_phases.cc, job_program.cc,
// job_finish.cc: the phases; job_failures.cc: what failures are to the job.
class JobDriver {
 public:
  JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks);

  const v1::Job& job() const { return record_.job(); }
  const store::JobRow& row() const { return record_.row(); }
  const config::JobSpec& spec() const { return spec_; }
  v1::JobState phase() const { return record_.phase(); }

  // Takes up a job that was just submitted or found in the store at start.
  void TakeUp(bool after_restart);
  // Fails a job found in the store that this release cannot read.
  void Refuse(const absl::Status& status);

  // What users ask: durable before anything is done about it. FailedPrecondition names the state
  // when it does not allow that; Unavailable: the store did not take it, and nothing has changed.
  absl::Status Pause();
  // With a checkpoint a gang that runs stops at its next step boundary and saves that step first;
  // where no such is made, because no gang runs or the save fails, a Warning says so.
  absl::Status Cancel(bool with_checkpoint = false);
  absl::Status Resume(int64_t steps);
  // Ends gang `epoch`, whose job goes on from its last checkpoint with the next gang; it costs no
  // restart. FailedPrecondition names state and gang where that one is not there any more.
  absl::Status StopGang(uint64_t epoch);
  // Asks all ranks of gang() what they are doing; JobIncidents::Request has `kept`.
  void Dump(std::chrono::milliseconds timeout,
            std::function<void(std::shared_ptr<const IncidentReport>)> kept);

  // PREPARING, with its data prepared, until workers live by which auto resources can be chosen.
  bool WaitsForChoice() const { return preparation_.WaitsForChoice(); }
  void LookForWorkers() { preparation_.LookForWorkers(); }  // for a job that waits for that
  // READY, or RECOVERING with its data prepared, and not waiting after a failure.
  bool WantsWorkers() const;
  // A gang that recovers or was drained: its place and its free workers are its own for a while.
  bool KeepsWorkers() const;
  // Whether the ranks of the gang that failed have all dropped its epoch.
  void LookForFreed() { recovery_.LookForFreed(); }
  int64_t not_before_ns() const { return recovery_.not_before_ns(); }  // end of the wait
  // Workers were reserved for this job: worker i is rank i.
  void Admit(const std::vector<scheduler::Worker>& workers);
  // Of a gang that runs since before the controller's start: the rank that a worker is that has
  // just registered, -1: none.
  int Registered(const scheduler::Worker& worker);
  // All of its ranks are there, and the job is READY.
  bool MayReadopt() const;
  void Readopt();
  void WorkerLost(const std::string& incarnation, const std::string& reason);
  void WorkerDraining(const std::string& worker);
  // It trains, and would go on from a checkpoint.
  bool MayBePreempted() const;
  // Gives its workers to a job of higher priority: stops at its next step boundary with a
  // checkpoint, and is one of the queue again. Only where MayBePreempted.
  void Preempt(const std::string& by, int64_t by_priority);
  // It drains, and its workers are for others then.
  bool GivesUpWorkers() const;
  // The job that they are for, where that is why; empty: none.
  const std::string& yields_to() const { return yields_to_; }
  // The controller stops: a gang that runs, or forms and would run, stops at its next step boundary
  // with a checkpoint and stays DRAINING, from where the next controller takes the job up.
  void StopWithController();
  // No step of it is on its way, nor its last checkpoint.
  bool AtRest() const;

  // May write its output directory now, or something of it still does.
  bool HoldsOutput() const;
  // Files::Identity of the output directory; empty: not known yet.
  const std::string& output_identity() const { return output_.identity(); }
  // Lets other jobs have the output directory, when this one does not write to it (any more).
  void LetOutputGo();

  // Null outside ADMITTED..DRAINING.
  const gang::Gang* gang() const { return session_ ? &session_->gang() : nullptr; }
  double flops_per_token() const { return attempt_.plan().flops_per_token; }  // of gang()'s plan
  // Null: no run.
  const gang::GangPace* pace() const { return program_ ? &session_->pace() : nullptr; }
  int64_t last_step() const { return record_.job().progress().step() - 1; }  // 0-based, -1: none

 private:
  // job_phases.cc
  void Prepare();
  void OnPrepared(const std::optional<v1::Error>& failed);
  bool TakeGang(gang::Gang gang, const std::string& reason);
  void OnFormed();
  void OnReentered(const Readoption& found);
  void Run(const Readoption* found);
  void GiveUpGang(const std::string& reason);

  // job_program.cc
  std::shared_ptr<Training> MakeTraining(const Readoption* found);
  void SaveCheckpoint(Training* training, int64_t sent_ns);

  // job_failures.cc
  void AttemptFailed(const v1::Error& found);
  void OnJudged(const failure::Verdict& verdict);
  void TryAgain();
  void Fail(const v1::Error& error, const std::string& reason = "");  // of StateChanged
  void EndAttempt(const std::string& reason);  // for good, or by request: nothing is recovered
  void AbortGang(const std::string& reason);

  // job_finish.cc
  void OnEnd();
  void Drain(bool with_checkpoint);
  void StopDraining(const std::string& reason);
  void BackToQueue(const std::string& reason);
  void Drained();
  void QueueAgain();
  void TellOfLastCheckpoint();
  void OnExported(const ExportAttempt& attempt);

  // Moves the job where its state must allow that. Where it does not, that is a bug: the job fails
  // with it, and false says that nothing more is to be done.
  bool Advance(state::JobEvent event, const std::string& reason,
               const std::vector<std::string>& reserved = {});

  const Deps deps_;
  JobRecord record_;
  config::JobSpec spec_;
  const JobHooks hooks_;

  std::shared_ptr<gang::Program> program_;      // null: the gang does not run
  std::shared_ptr<gang::GangSession> session_;  // null: there is no gang

  OutputHold output_;
  JobPreparation preparation_;
  JobCheckpoints checkpoints_;
  JobAttempt attempt_;
  JobReadoption readoption_;
  JobIncidents incidents_;
  JobRecovery recovery_;
  JobExport export_;

  double committed_seconds_ = 0;  // of steps done for the first time
  bool saves_last_ = false;       // a cancel that asked for a checkpoint
  bool stopping_ = false;         // the controller does
  std::string yields_to_;         // the job that preempted it, until it has stopped
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_
