// Handles the failure of an attempt until the job is tried again: it asks the ranks, waits for
// them, and reports each stage.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_RECOVERY_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_RECOVERY_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/driver/job/job_incidents.h"
#include "controller/driver/records/job_context.h"
#include "controller/failure/policy.h"
#include "controller/failure/recovery.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

// Loop thread only. What failures mean: controller/failure/policy.h; in which order a gang that
// failed is ended: controller/state/recovery_state.h.
class JobRecovery {
 public:
  // `incidents` outlives it.
  JobRecovery(const JobContext& job, JobIncidents* incidents);

  // The facts about the job by which failure::policy judges.
  failure::JobFacts Facts() const;

  void Suspected(const v1::Error& noticed);  // by its session
  // The attempt failed; leads to OnJudged. `set_aside`: because of a damaged checkpoint, which the
  // next one passes over.
  void Failed(const v1::Error& found, bool set_aside);
  // A user ended the gang that runs, which costs no restart.
  void StopAsked();
  bool Dumps() const { return stages_.stage() == state::RecoveryStage::kDump; }  // it has failed
  bool Quiet() const { return stages_.stage() == state::RecoveryStage::kNone; }

  // The attempt has ended. `aborted` are the ranks that were told to abort.
  void Ended(const std::vector<gang::Rank>& aborted);
  // Call it after OnJudged, when the job is RECOVERING. It keeps its place and its free workers for
  // a while; leads to OnRetryDue.
  void Retry(const failure::Verdict& verdict);
  // The export waits for storage; leads to OnRetryDue.
  void HeldUp(const failure::Verdict& verdict);
  void HeldUpNoMore() { held_up_ = 0; }  // a checkpoint is written, or a user does not want it
  void Stopped() { stages_.Happened(state::RecoveryEvent::kStopped); }  // nothing is recovered
  void Placed() { stages_.Happened(state::RecoveryEvent::kPlaced); }    // it has workers again
  // Looks whether all ranks of the failed gang have dropped its epoch.
  void LookForFreed();

  // As failure::Recovery.
  void Keep() { stages_.Keep(); }
  void KeepNoMore() { stages_.KeepNoMore(); }
  bool Keeps() const { return stages_.Keeps(); }
  void WaitNoMore() { stages_.WaitNoMore(); }
  bool Waits() const { return stages_.Waits(); }
  int64_t not_before_ns() const { return stages_.not_before_ns(); }

 private:
  void HostFailed();
  void OnStage(state::RecoveryStage stage, std::chrono::milliseconds limit);
  void TellStage(state::RecoveryStage stage, std::chrono::milliseconds limit);
  std::string WhatHappensIn(state::RecoveryStage stage) const;
  void OnStageOver(state::RecoveryStage stage);
  void AskRanks();
  void Judge();
  void WaitAfter(const failure::Verdict& verdict);
  gang::GangSession* session() const { return job_.session.get(); }

  const JobContext& job_;
  JobIncidents* const incidents_;
  failure::Recovery stages_;
  v1::Error noticed_;  // what a rank of the attempt reported first
  // The error of the attempt that is being ended.
  v1::Error failed_with_;
  bool set_aside_ = false;
  uint64_t epoch_ = 0;
  bool asked_to_stop_ = false;        // by StopAsked
  bool waits_for_others_ = false;     // storage or machines hold it up
  std::vector<std::string> aborted_;  // incarnations of its ranks
  int held_up_ = 0;    // times in a row, until a checkpoint or the artifacts are written
  Lifetime lifetime_;  // cut when an attempt ends
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_RECOVERY_H_
