#include "controller/driver/job/job_recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

using state::RecoveryEvent;
using state::RecoveryStage;
using std::chrono::milliseconds;

constexpr size_t kMostRanks = 64;  // of a larger gang that failed: its first ones

failure::StageLimits LimitsOf(const Settings& settings) {
  return {.suspect = settings.verdict_window,
          .dump = settings.dump_timeout,
          .abort = scheduler::Registry::kAbortPatience,
          .respawn = settings.respawn,
          .keep = settings.keep_workers};
}

// The rank that failed, and the first of the others.
std::vector<int> RanksToAsk(const gang::Gang& gang, int failed) {
  std::vector<int> ranks;
  if (failed >= 0 && failed < gang.world_size()) ranks.push_back(failed);
  for (int rank = 0; rank < gang.world_size(); ++rank) {
    if (ranks.size() == kMostRanks) break;
    if (rank != failed) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

JobRecovery::JobRecovery(const JobContext& job, JobIncidents* incidents)
    : job_(job),
      incidents_(incidents),
      stages_(
          job.deps.loop, LimitsOf(job.deps.settings),
          {.entered = [this](RecoveryStage stage, milliseconds limit) { OnStage(stage, limit); },
           .time_over = [this](RecoveryStage stage) { OnStageOver(stage); },
           .try_again = [this] { job_.listener.OnRetryDue(); },
           .kept = [this] { job_.hooks.reschedule(); }}) {}

failure::JobFacts JobRecovery::Facts() const {
  const v1::Job& job = job_.record.job();
  const state::JobStatus& status = job_.record.status();
  return {.has_trained = job.started_unix_ms() != 0 || !job.checkpoints().empty(),
          .draining = status.phase == v1::JOB_STATE_DRAINING,
          .restarts = status.restarts,
          .restarts_since_checkpoint = status.restarts_since_checkpoint,
          .max_restarts = job_.spec.max_restarts,
          .max_restarts_total = job_.spec.max_restarts_total,
          .held_up = held_up_,
          .set_aside = set_aside_,
          .asked_to_stop = asked_to_stop_};
}

void JobRecovery::Suspected(const v1::Error& noticed) {
  if (Quiet()) noticed_ = noticed;
  stages_.Happened(RecoveryEvent::kSuspected);
}

void JobRecovery::Failed(const v1::Error& found, bool set_aside) {
  set_aside_ = set_aside;
  failed_with_ = failure::Whose(found, Facts());
  epoch_ = session() ? session()->gang().epoch : 0;
  job_.record.AddEvent(AttemptFailedEvent(epoch_, failed_with_), failure::Describe(failed_with_));
  if (failed_with_.kind() == v1::ERROR_KIND_HOST) HostFailed();
  if (session() == nullptr) {
    Judge();
    return;
  }
  if (Quiet() || failed_with_.kind() == v1::ERROR_KIND_USER) noticed_ = failed_with_;
  stages_.Happened(RecoveryEvent::kSuspected);
  const bool dump = epoch_ > 0 && failure::NeedsDump(failed_with_);
  stages_.Happened(dump ? RecoveryEvent::kUnexplained : RecoveryEvent::kExplained);
}

void JobRecovery::StopAsked() {
  asked_to_stop_ = true;
  failed_with_ = failure::MakeError(absl::AbortedError("ended by a user (cox dump --stop)"),
                                    {.phase = "dump"});
  epoch_ = session()->gang().epoch;
  job_.record.AddEvent(AttemptFailedEvent(epoch_, failed_with_), failure::Describe(failed_with_));
  noticed_ = failed_with_;
  stages_.Happened(RecoveryEvent::kSuspected);
  stages_.Happened(RecoveryEvent::kExplained);
}

// It may be one failure of its host too many.
void JobRecovery::HostFailed() {
  if (failed_with_.phase() == "form") return;  // the ranks differ: no host in particular
  const std::optional<v1::JobEvent> left_out =
      job_.hooks.host_failed(job_.record.id(), failed_with_);
  if (!left_out) return;
  const std::string device = config::DeviceName(job_.spec.device);
  const int64_t living = job_.deps.registry->Living(device);
  const std::string& host = left_out->host_left_out().host();
  job_.record.AddEvent(
      *left_out,
      absl::StrCat("host ", host, " is left out after ", left_out->host_left_out().failures(),
                   " failures within an hour; cox workers uncordon ", host, " puts it back. ",
                   living, " workers of device ", device, " are left, the job needs ",
                   job_.spec.workers,
                   living < job_.spec.workers ? ": it waits until there are as many" : ""));
}

std::string JobRecovery::WhatHappensIn(RecoveryStage stage) const {
  switch (stage) {
    case RecoveryStage::kSuspect:
      return absl::StrCat(
          noticed_.rank() < 0 ? std::string("its ranks") : absl::StrCat("rank ", noticed_.rank()),
          " failed: the other ranks have this long to report their errors");
    case RecoveryStage::kDump:
      return "its ranks are asked what they were doing";
    case RecoveryStage::kAbort:
      return "its ranks are told to abort";
    case RecoveryStage::kKill:
      return "processes that did not abort are ended by their supervisors";
    case RecoveryStage::kRespawn:
      return "it waits for its workers, also for those whose processes ended";
    case RecoveryStage::kReplace:
      return "not all of its workers came back: others may take their places";
    case RecoveryStage::kRequeue:
      return "it gives up its place in the queue and its workers";
    case RecoveryStage::kNone:
      break;
  }
  return "";
}

void JobRecovery::OnStage(RecoveryStage stage, milliseconds limit) {
  if (session() != nullptr) epoch_ = session()->gang().epoch;
  job_.deps.metrics->RecoveryStage(job_.record.id(), std::string(state::StageName(stage)));
  TellStage(stage, limit);
  if (stage == RecoveryStage::kDump) AskRanks();
  if (stage == RecoveryStage::kAbort) Judge();
}

// What its user did wrong ends the job: there is nothing to recover from.
void JobRecovery::TellStage(RecoveryStage stage, milliseconds limit) {
  if (noticed_.kind() == v1::ERROR_KIND_USER) return;
  const double seconds = std::chrono::duration<double>(limit).count();
  job_.record.AddEvent(RecoveryStageEvent(stage, epoch_, seconds),
                       absl::StrCat("gang ", epoch_, ", ", std::string(state::StageName(stage)),
                                    limit > milliseconds(0) ? absl::StrCat(" (", seconds, " s): ")
                                                            : std::string(": "),
                                    WhatHappensIn(stage)));
}

void JobRecovery::OnStageOver(RecoveryStage stage) {
  if (stage == RecoveryStage::kSuspect) {
    session()->Conclude();
    return;
  }
  LookForFreed();
  if (stages_.stage() == stage) stages_.Happened(RecoveryEvent::kDeadline);
}

// Before the abort, which ends what they were doing. The last answer comes before the stage is
// over, and is kept beside what follows.
void JobRecovery::AskRanks() {
  incidents_->Take(*session(),
                   {.reason = incidents::Reason::kFailure,
                    .error = failed_with_,
                    .ranks = RanksToAsk(session()->gang(), failed_with_.rank()),
                    .timeout = job_.deps.settings.dump_timeout * 9 / 10,
                    .taken = lifetime_.Wrap([this] { stages_.Happened(RecoveryEvent::kDumped); })});
}

void JobRecovery::Judge() {
  const failure::Verdict verdict = failure::JudgeAttempt(failed_with_, Facts());
  const bool asked = std::exchange(asked_to_stop_, false);
  waits_for_others_ = verdict.course == failure::Course::kWaits && !set_aside_ && !asked;
  job_.listener.OnJudged(verdict);
}

void JobRecovery::Ended(const std::vector<gang::Rank>& aborted) {
  lifetime_.Reset();
  aborted_.clear();
  for (const gang::Rank& rank : aborted) aborted_.push_back(rank.target.incarnation);
}

void JobRecovery::Retry(const failure::Verdict& verdict) {
  if (verdict.course != failure::Course::kWaits || !stages_.was_kept()) stages_.Keep();
  if (waits_for_others_) ++held_up_;
  WaitAfter(verdict);
  LookForFreed();
}

void JobRecovery::HeldUp(const failure::Verdict& verdict) {
  ++held_up_;
  WaitAfter(verdict);
}

void JobRecovery::LookForFreed() {
  if (stages_.stage() != RecoveryStage::kAbort && stages_.stage() != RecoveryStage::kKill) return;
  const bool aborting = std::any_of(aborted_.begin(), aborted_.end(), [&](const auto& rank) {
    const scheduler::Worker* worker = job_.deps.registry->Find(rank);
    return worker != nullptr && worker->status.phase == state::WorkerPhase::kAborting;
  });
  if (!aborting) stages_.Happened(RecoveryEvent::kFreed);
}

void JobRecovery::WaitAfter(const failure::Verdict& verdict) {
  job_.record.SetBack(verdict.error, job_.deps.loop->clock().UnixMs() + verdict.wait.count());
  stages_.Wait(verdict.wait);
}

}  // namespace coxswain::driver
