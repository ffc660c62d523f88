// What is done about failures. What they mean: controller/failure/policy.h; in which order a gang
// that failed is ended: controller/state/recovery_state.h.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

using state::RecoveryEvent;
using state::RecoveryStage;
using std::chrono::milliseconds;

constexpr size_t kMostRanks = 64;  // of a larger gang that failed: its first ones

const char* WhatHappensIn(RecoveryStage stage) {
  switch (stage) {
    case RecoveryStage::kSuspect:
      return "something is wrong: its ranks have this long to say what";
    case RecoveryStage::kDump:
      return "its ranks are asked what they were doing";
    case RecoveryStage::kAbort:
      return "its ranks are told to abort";
    case RecoveryStage::kKill:
      return "processes that did not abort are ended by their supervisors";
    case RecoveryStage::kRespawn:
      return "its workers are awaited, those whose processes ended too";
    case RecoveryStage::kReplace:
      return "not all of its workers came back: others may take their places";
    case RecoveryStage::kRequeue:
      return "its place and its workers are given up";
    case RecoveryStage::kNone:
      break;
  }
  return "";
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

failure::JobFacts JobDriver::Facts() const {
  return {.has_trained = job().started_unix_ms() != 0 || !job().checkpoints().empty(),
          .draining = phase() == v1::JOB_STATE_DRAINING,
          .restarts = record_.status().restarts,
          .restarts_since_checkpoint = record_.status().restarts_since_checkpoint,
          .max_restarts = spec_.max_restarts,
          .max_restarts_total = spec_.max_restarts_total,
          .held_up = held_up_,
          .set_aside = set_aside_,
          .asked_to_stop = asked_to_stop_};
}

// Invariant driver-7. A rank found a damaged block in the checkpoint that it loaded: the next
// attempt passes it over.
bool JobDriver::SetAside(const v1::Error& error) {
  const bool names_it =
      !resumed_from_.empty() && error.message().find(resumed_from_ + "/") != std::string::npos;
  if (error.code() != "DATA_LOSS" || error.phase() != "prepare" || !names_it) return false;
  return damaged_.emplace(resumed_from_, error.message()).second;
}

void JobDriver::AttemptFailed(const v1::Error& found) {
  if (recovery_.stage() == RecoveryStage::kDump) return;  // it has failed already
  set_aside_ = SetAside(found);
  failed_with_ = failure::Whose(found, Facts());
  failed_epoch_ = session_ ? session_->gang().epoch : 0;
  record_.AddEvent(AttemptFailedEvent(failed_epoch_, failed_with_),
                   failure::Describe(failed_with_));
  if (failed_with_.kind() == v1::ERROR_KIND_HOST) HostFailed();
  if (session_ == nullptr) {
    EndFailedAttempt();
    return;
  }
  recovery_.Happened(RecoveryEvent::kSuspected);
  const bool dump = failed_epoch_ > 0 && failure::NeedsDump(failed_with_);
  recovery_.Happened(dump ? RecoveryEvent::kUnexplained : RecoveryEvent::kExplained);
}

// It may be one failure of its host too many.
void JobDriver::HostFailed() {
  if (failed_with_.phase() == "form") return;  // the ranks differ: no host in particular
  const std::optional<v1::JobEvent> left_out = hooks_.host_failed(job().id(), failed_with_);
  if (!left_out) return;
  const std::string device = config::DeviceName(spec_.device);
  const int64_t living = deps_.registry->Living(device);
  const std::string& host = left_out->host_left_out().host();
  record_.AddEvent(
      *left_out,
      absl::StrCat("host ", host, " is left out after ", left_out->host_left_out().failures(),
                   " failures within an hour; cox workers uncordon ", host, " puts it back. ",
                   living, " workers of device ", device, " are left, the job needs ",
                   spec_.workers,
                   living < spec_.workers ? ": it waits until there are as many" : ""));
}

void JobDriver::OnStage(RecoveryStage stage, milliseconds limit) {
  if (session_ != nullptr) failed_epoch_ = session_->gang().epoch;
  const double seconds = std::chrono::duration<double>(limit).count();
  deps_.metrics->RecoveryStage(job().id(), std::string(state::StageName(stage)));
  record_.AddEvent(RecoveryStageEvent(stage, failed_epoch_, seconds),
                   absl::StrCat("gang ", failed_epoch_, ", ", std::string(state::StageName(stage)),
                                limit > milliseconds(0) ? absl::StrCat(" (", seconds, " s): ")
                                                        : std::string(": "),
                                WhatHappensIn(stage)));
  if (stage == RecoveryStage::kDump) AskRanks();
  if (stage == RecoveryStage::kAbort) EndFailedAttempt();
}

void JobDriver::OnStageOver(RecoveryStage stage) {
  if (stage == RecoveryStage::kSuspect) {
    session_->Conclude();
    return;
  }
  LookForFreed();
  if (recovery_.stage() == stage) recovery_.Happened(RecoveryEvent::kDeadline);
}

// Before the abort, which ends what they were doing. The last answer comes before the stage is
// over, and is kept beside what follows.
void JobDriver::AskRanks() {
  incidents_.Take(
      *session_, {.reason = incidents::Reason::kFailure,
                  .error = failed_with_,
                  .ranks = RanksToAsk(session_->gang(), failed_with_.rank()),
                  .timeout = deps_.settings.dump_timeout * 9 / 10,
                  .taken = lifetime_.Wrap([this] { recovery_.Happened(RecoveryEvent::kDumped); })});
}

absl::Status JobDriver::StopGang(uint64_t epoch) {
  if (session_ == nullptr || session_->gang().epoch != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job().id(), " is ", std::string(state::PhaseName(phase())), ": gang ",
                     epoch, " has ended already, there is nothing to stop"));
  }
  if (recovery_.stage() == RecoveryStage::kDump) return absl::OkStatus();  // it is being ended
  asked_to_stop_ = true;
  failed_with_ = failure::MakeError(absl::AbortedError("ended by a user (cox dump --stop)"),
                                    {.phase = "dump"});
  failed_epoch_ = epoch;
  record_.AddEvent(AttemptFailedEvent(epoch, failed_with_), failure::Describe(failed_with_));
  recovery_.Happened(RecoveryEvent::kSuspected);
  recovery_.Happened(RecoveryEvent::kExplained);
  return absl::OkStatus();
}

void JobDriver::EndFailedAttempt() {
  const failure::Verdict verdict = failure::JudgeAttempt(failed_with_, Facts());
  const bool asked = std::exchange(asked_to_stop_, false);
  if (verdict.course == failure::Course::kEnds) {
    Fail(verdict.error, verdict.reason);
    return;
  }
  AbortGang(failure::Describe(verdict.error));
  Retry(verdict, /*held_up=*/verdict.course == failure::Course::kWaits && !set_aside_ && !asked);
}

void JobDriver::Retry(const failure::Verdict& verdict, bool held_up) {
  const bool waits = verdict.course == failure::Course::kWaits;
  if (phase() == v1::JOB_STATE_DRAINING) TellOfLastCheckpoint();
  const absl::Status status = record_.Apply(
      waits ? state::JobEvent::kHeldUp : state::JobEvent::kAttemptFailed, verdict.reason);
  if (status.ok() && phase() == v1::JOB_STATE_RECOVERING) {
    deps_.metrics->Restart(job().id(), verdict.error.phase());
    if (!waits || !recovery_.was_kept()) recovery_.Keep();
    if (held_up) ++held_up_;
    WaitAfter(verdict);
    LookForFreed();
  } else {
    recovery_.Happened(RecoveryEvent::kStopped);
  }
  deps_.journal->FlushOrKeep();
  if (phase() == v1::JOB_STATE_QUEUED) QueueAgain();
  hooks_.reschedule();
}

void JobDriver::LookForFreed() {
  if (recovery_.stage() != RecoveryStage::kAbort && recovery_.stage() != RecoveryStage::kKill) {
    return;
  }
  const bool aborting = std::any_of(aborted_.begin(), aborted_.end(), [&](const auto& rank) {
    const scheduler::Worker* worker = deps_.registry->Find(rank);
    return worker != nullptr && worker->status.phase == state::WorkerPhase::kAborting;
  });
  if (!aborting) recovery_.Happened(RecoveryEvent::kFreed);
}

void JobDriver::WaitAfter(const failure::Verdict& verdict) {
  record_.SetBack(verdict.error, deps_.loop->clock().UnixMs() + verdict.wait.count());
  recovery_.Wait(verdict.wait);
}

void JobDriver::TryAgain() {
  if (phase() == v1::JOB_STATE_EXPORTING) {
    Export();
  } else if (phase() == v1::JOB_STATE_RECOVERING && curriculum_ == nullptr) {
    Prepare();
  } else {
    hooks_.reschedule();
  }
}

bool JobDriver::KeepsWorkers() const {
  switch (phase()) {
    case v1::JOB_STATE_QUEUED:
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_READY:
    case v1::JOB_STATE_RECOVERING:
      return recovery_.Keeps();
    default:
      return false;
  }
}

void JobDriver::ExportFailed(const v1::Error& error, bool for_good) {
  const failure::Verdict verdict = failure::JudgeExport(error, Facts());
  if (for_good || verdict.course == failure::Course::kEnds) {
    Fail(error);
    return;
  }
  ++held_up_;
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(verdict.wait).count();
  record_.AddEvent(ExportFailedEvent(error),
                   absl::StrCat(failure::Describe(error), ". Tried again in ", seconds, " s"));
  WaitAfter(verdict);
  deps_.journal->FlushOrKeep();
}

void JobDriver::Fail(const v1::Error& error) {
  Fail(error, absl::StrCat("failed: ", failure::Describe(error)));
}

void JobDriver::Fail(const v1::Error& error, const std::string& reason) {
  EndAttempt(failure::Describe(error));
  *record_.edit().mutable_error() = error;
  const absl::Status failed = record_.Apply(state::JobEvent::kFailed, reason);
  if (!failed.ok()) return;  // it has ended
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

void JobDriver::EndAttempt(const std::string& reason) {
  AbortGang(reason);
  recovery_.Happened(RecoveryEvent::kStopped);
}

// Without its consent. Every rank is told to abort, and is free when it says so.
void JobDriver::AbortGang(const std::string& reason) {
  lifetime_.Reset();
  checkpoints_.Stop();
  program_.reset();
  aborted_.clear();
  DropGang(reason);
  if (session_ == nullptr) return;
  if (session_->gang().epoch > 0) EndPosition();
  for (const gang::Rank& rank : session_->gang().ranks) {
    aborted_.push_back(rank.target.incarnation);
  }
  gang::GangSession::Abort(std::exchange(session_, nullptr), reason);
}

}  // namespace coxswain::driver
