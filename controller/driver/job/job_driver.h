// The life of one job: prepare data, form a gang, run its program, recover, export.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_DRIVER_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_DRIVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/config/job_spec.h"
#include "controller/driver/job/job_export.h"
#include "controller/driver/job/job_incidents.h"
#include "controller/driver/job/job_preparation.h"
#include "controller/driver/job/job_proof.h"
#include "controller/driver/job/job_push.h"
#include "controller/driver/job/job_recovery.h"
#include "controller/driver/job/job_trackers.h"
#include "controller/driver/output/job_checkpoints.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/readoption/job_attempt.h"
#include "controller/driver/readoption/job_readoption.h"
#include "controller/driver/records/job_context.h"
#include "controller/driver/training/training.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

// Loop thread only. It owns the program of its job and, while that runs, one session with its gang.
// To end an attempt is to give the session away. Each concern with a state of its own is a part.
// A part is made with the job's context, and the job is its listener.
// job_driver.cc: what users and the table of jobs ask; job_phases.cc, job_program.cc,
// job_finish.cc: the phases; job_failures.cc: what failures are to the job.
class JobDriver : private JobListener {
 public:
  JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks);

  const v1::Job& job() const { return record_.job(); }
  const store::JobRow& row() const { return record_.row(); }
  const config::JobSpec& spec() const { return spec_; }
  v1::JobState phase() const { return record_.phase(); }

  // An event of the job that the caller made, e.g. what the Hub answered.
  void Tell(v1::JobEvent event, const std::string& message) {
    record_.AddEvent(std::move(event), message);
  }

  // Takes up a job that was just submitted or found in the store at start.
  void TakeUp(bool after_restart);
  // Fails a job found in the store that this release cannot read.
  void Refuse(const absl::Status& status);

  // Requests of users. Each is durable before anything is done about it. FailedPrecondition names a
  // state that does not allow the request. Unavailable: the store refused it; nothing has changed.
  absl::Status Pause();
  // With a checkpoint, a running gang stops at its next step boundary and saves that step first. If
  // none is made, because no gang runs or the save fails, a Warning says so.
  absl::Status Cancel(bool with_checkpoint = false);
  absl::Status Resume(int64_t steps);
  // Ends gang `epoch`. The job continues from its last checkpoint with the next gang, at no
  // restart. FailedPrecondition names state and gang when gang `epoch` has ended already.
  absl::Status StopGang(uint64_t epoch);
  // Asks all ranks of gang() what they are doing; JobIncidents::Request has `kept`.
  void Dump(std::chrono::milliseconds timeout,
            std::function<void(std::shared_ptr<const IncidentReport>)> kept);

  // True when the job is PREPARING, its data is prepared, and no living workers allow a choice of
  // auto resources yet.
  bool WaitsForChoice() const { return preparation_.WaitsForChoice(); }
  void LookForWorkers() { preparation_.LookForWorkers(); }  // for a job that waits for that
  // True when READY, or RECOVERING with prepared data, and not waiting after a failure.
  bool WantsWorkers() const;
  // True for a gang that recovers or was drained: it keeps its place and its free workers for a
  // while.
  bool KeepsWorkers() const;
  // Looks whether all ranks of the failed gang have dropped its epoch.
  void LookForFreed() { recovery_.LookForFreed(); }
  int64_t not_before_ns() const { return recovery_.not_before_ns(); }  // end of the wait
  // Workers were reserved for this job: worker i is rank i.
  void Admit(const std::vector<scheduler::Worker>& workers);
  // The rank that a worker, which has just registered, has in a gang that an earlier controller
  // formed; -1: none.
  int Registered(const scheduler::Worker& worker);
  // True when all ranks of that gang have registered and the job is READY.
  bool MayReadopt() const;
  void Readopt();
  void WorkerLost(const std::string& incarnation, const std::string& reason);
  void WorkerDraining(const std::string& worker);
  // True when it trains and could continue from a checkpoint.
  bool MayBePreempted() const;
  // Gives its workers to a job of higher priority: it stops at its next step boundary with a
  // checkpoint and returns to the queue. Requires MayBePreempted.
  void Preempt(const std::string& by, int64_t by_priority);
  // True when it drains and will give its workers to others.
  bool GivesUpWorkers() const;
  // The job that preempted this one; empty: none.
  const std::string& yields_to() const { return yields_to_; }
  // The controller stops. A gang that runs or forms stops at its next step boundary with a
  // checkpoint. The job stays DRAINING; the next controller takes it up from there.
  void StopWithController();
  // True when no step and no last checkpoint of it is in progress, and the tracker files of an
  // ended job are whole or given up.
  bool AtRest() const;

  // True while the job, or a part of it that is still ending, may write its output directory.
  bool HoldsOutput() const;
  // Files::Identity of the output directory; empty: not known yet.
  const std::string& output_identity() const { return output_.identity(); }
  // Lets other jobs have the output directory, if this one no longer writes to it.
  void LetOutputGo();

  // Null outside ADMITTED..DRAINING.
  const gang::Gang* gang() const { return context_.session ? &context_.session->gang() : nullptr; }
  double flops_per_token() const { return attempt_.plan().flops_per_token; }  // of gang()'s plan
  // Null: no run.
  const gang::GangPace* pace() const { return program_ ? &context_.session->pace() : nullptr; }
  int64_t last_step() const { return record_.job().progress().step() - 1; }  // 0-based, -1: none

 private:
  // job_phases.cc
  void Prepare();
  void OnPrepared(const std::optional<v1::Error>& failed) override;
  bool OnPlanned() override;
  bool TakeGang(gang::Gang gang, const std::string& reason);
  void OnFormed();
  void OnReentered(const Readoption& found);
  bool LacksReferences() const;
  void Run(const Readoption* found);
  void OnGangLost(const std::string& reason) override;

  // job_program.cc
  std::shared_ptr<Training> MakeTraining(const Readoption* found);
  void SaveCheckpoint(Training* training, int64_t sent_ns);
  ProofAsking::Events ProofEvents();
  std::shared_ptr<const ReferenceSums> KnownReferences() const;  // null: none
  void KeepReferences(std::shared_ptr<const ReferenceSums> sums);

  // job_failures.cc
  void OnAttemptFailed(const v1::Error& found) override;
  void OnJudged(const failure::Verdict& verdict) override;
  void OnRetryDue() override;
  void OnHopeless(const v1::Error& error) override { Fail(error); }
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
  void Export();
  void OnExported(const ExportAttempt& attempt) override;
  void OnPushed(const absl::StatusOr<PushedTo>& pushed) override;
  void Succeed();

  // Moves the job by an event that its state must allow. If the state refuses, that is a bug: the
  // job fails with it, and false tells the caller to stop.
  bool Advance(state::JobEvent event, const std::string& reason,
               const std::vector<std::string>& reserved = {});

  const Deps deps_;
  JobRecord record_;
  config::JobSpec spec_;
  const JobHooks hooks_;

  std::shared_ptr<gang::Program> program_;  // null: the gang does not run
  JobContext context_;                      // of the parts

  OutputHold output_;
  JobPreparation preparation_;
  JobCheckpoints checkpoints_;
  JobAttempt attempt_;
  JobReadoption readoption_;
  JobIncidents incidents_;
  JobRecovery recovery_;
  JobExport export_;
  JobProof proof_;
  JobPush push_;
  JobTrackers trackers_;

  std::shared_ptr<const ReferenceSums> references_;  // that this controller had computed
  double committed_seconds_ = 0;                     // of steps done for the first time
  int64_t admitted_ns_ = 0;                          // 0: its gang was not formed here
  double forming_seconds_ = 0;                       // of its gang; 0: not known
  Lifetime lifetime_;                                // of work in lanes
  bool saves_last_ = false;                          // a cancel that asked for a checkpoint
  bool stopping_ = false;                            // the controller does
  std::string yields_to_;  // the job that preempted it, until it has stopped
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_DRIVER_H_
