// The life of one job: prepare data, form a gang, run steps, commit, recover, export.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "controller/driver/checkpoint_saver.h"
#include "controller/driver/deps.h"
#include "controller/driver/form_gang.h"
#include "controller/driver/job_record.h"
#include "controller/driver/output_claim.h"
#include "controller/driver/step_run.h"

namespace coxswain::driver {

struct JobHooks {
  std::function<void()> reschedule;  // a job or workers became available
  // Directories of committed checkpoints of another job, newest first, for `resume: <job>[:step]`.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& resume)>
      resolve_checkpoints;
};

struct ResourceChoice;

// Loop thread only. job_driver.cc: what users ask; job_resources.cc, job_prepare.cc,
// job_attempt.cc, job_results.cc, job_answers.cc, job_finish.cc: the phases; job_output.cc: the
// output directory; job_recovery.cc: what failures mean.
class JobDriver {
 public:
  JobDriver(const Deps& deps, store::JobRow row, config::JobSpec spec, JobHooks hooks);
  ~JobDriver();

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
  absl::Status Cancel();
  absl::Status Resume(int64_t steps);

  // PREPARING, with its data prepared, until workers live by which auto resources can be chosen.
  bool WaitsForChoice() const;
  void LookForWorkers();  // whether they do, for a job that waits for that
  // READY, or RECOVERING with its data prepared, and not waiting after a failure.
  bool WantsWorkers() const;
  // A gang that recovers or was drained: its place and its free workers are its own for a while.
  bool KeepsWorkers() const;
  int64_t not_before_ns() const { return not_before_ns_; }  // end of the wait after a failure
  // Workers were reserved for this job: worker i is rank i.
  void Admit(const std::vector<scheduler::Worker>& workers);
  void WorkerLost(const std::string& incarnation, const std::string& reason);
  void WorkerDraining(const std::string& worker);

  // May write its output directory now, or something of it still does.
  bool HoldsOutput() const;
  // Files::Identity of the output directory; empty: not known yet.
  const std::string& output_identity() const { return output_identity_; }
  // Lets other jobs have the output directory, when this one does not write to it (any more).
  void LetOutputGo();

  const Gang* gang() const { return gang_.get(); }  // null outside ADMITTED..DRAINING
  const GangPace* pace() const { return run_ ? &run_->pace() : nullptr; }    // null: no run
  int64_t last_step() const { return record_.job().progress().step() - 1; }  // 0-based, -1: none

 private:
  // job_resources.cc
  bool HasResources();  // chooses them where that can be done
  config::JobSpec SpecOfData() const;
  bool TakeResources(const ResourceChoice& choice);

  // job_prepare.cc
  void Prepare();
  void StartPreparation();
  void OnPrepared(const absl::StatusOr<std::shared_ptr<const Curriculum>>& result);
  void SayPrepared();

  // job_attempt.cc
  struct Draft;          // what is found out before a gang forms
  struct ExportAttempt;  // what came of an export
  void DraftAttempt(const WorkerFacts& workers);
  absl::StatusOr<checkpoint::ResumeQuery> WhereToResume() const;
  void OnDraft(const Draft& draft, const absl::Status& status);
  std::string KnownGemmTable();
  absl::Status PersistEpoch();
  void OnFormed(std::optional<v1::Error> error);
  void RememberLinks();
  void ReadRecordedSteps();
  void KeepComparableSteps();
  void StartRun();

  // job_recovery.cc
  v1::Error Judged(v1::Error error) const;
  bool SetAside(const v1::Error& error);
  void AttemptFailed(const v1::Error& found);
  void Retry(const v1::Error& error, bool draining, bool at_once);
  void WaitAfter(const v1::Error& error, int64_t wait_ns);
  void TryAgain();
  void KeepWorkers();  // from now on, for Settings::keep_workers
  void PreparationFailed(const absl::Status& status);
  void SaveFailed(int64_t step, const v1::Error& error);
  void ExportFailed(const absl::Status& status);
  void Fail(const v1::Error& error);
  void Fail(const v1::Error& error, const std::string& reason);  // of StateChanged
  void TearDown(const std::string& reason);

  // job_results.cc
  void OnStep(const StepResult& result, const InFlight& command);
  void CheckReplay(const StepResult& result);
  void CheckPace();
  void OnEval(const checkpoint::EvalPoint& point, bool is_best);
  // job_answers.cc
  void OnAnswers(int64_t step, const Answers& answers, double seconds, bool whole);
  void TellPieces(const Answers& answers, bool whole);
  void TellAnswers(int64_t step, const Answers& answers, double seconds);
  void OnSnapshot(int64_t step, int64_t sent_ns);
  void OnSnapshotDelayed(int64_t step);
  void OnSaved(const checkpoint::Manifest& manifest, int64_t sent_ns);
  void ObserveOutput();  // how much room its file system has left
  void Retain();
  void UpdateProgress(const checkpoint::RunState& run);
  v1::CheckpointInfo InfoOf(const checkpoint::Manifest& manifest,
                            const std::string& directory) const;

  // job_finish.cc
  void OnEnd();
  void ReleaseGang();
  void Drained();
  void DrainDeadline();
  void Export();
  void EndWithAnswers();  // of a job that only generates

  std::vector<const v1::CheckpointInfo*> ToExport() const;
  void OnExported(const ExportAttempt& attempt);

  // job_output.cc
  std::shared_ptr<OutputClaim> ClaimOutput();
  void RenewOutput();

  void CommitJournal();  // commits what a user or a worker may rely on next
  template <typename T>
  void DestroyLater(T& dead);  // destroys after the current callback

  const Deps deps_;
  JobRecord record_;
  config::JobSpec spec_;
  const JobHooks hooks_;

  std::shared_ptr<std::atomic<bool>> prepare_cancelled_;
  bool data_prepared_ = false;  // the curriculum waits for resources
  std::shared_ptr<const Curriculum> curriculum_;

  std::shared_ptr<OutputClaim> output_;  // null: not claimed
  std::string output_identity_;
  bool letting_output_go_ = false;
  bool export_waits_ = false;  // for the output directory
  Lifetime output_life_;       // cut when the output directory is let go

  std::shared_ptr<Gang> gang_;  // shared with what still ends it
  std::unique_ptr<GangFormation> formation_;
  std::shared_ptr<StepRun> run_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::vector<size_t> told_bytes_;  // of each answer of a job that only generates
  checkpoint::RunState start_state_;
  std::string resumed_from_;                    // directory of the checkpoint; empty: none
  std::map<std::string, std::string> damaged_;  // directories of checkpoints, and what ranks found
  std::map<int64_t, store::StepRow> recorded_;  // by step: what a replay must reproduce
  std::string replay_divergence_;               // set when it did not
  int64_t not_before_ns_ = 0;
  int64_t keep_until_ns_ = 0;  // 0: a gang trained since, or none did
  int held_up_ = 0;            // times in a row, until a checkpoint or the artifacts are written
  double committed_seconds_ = 0;
  Loop::TimerId drain_timer_ = 0;
  Loop::TimerId choice_timer_ = 0;
  Lifetime lifetime_;  // cut when an attempt or a preparation ends
  Lifetime keep_lifetime_;
};

template <typename T>
void JobDriver::DestroyLater(T& dead) {
  if (!dead) return;
  std::shared_ptr<typename T::element_type> body(std::move(dead));
  deps_.loop->Post([body] {});
}

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_DRIVER_H_
