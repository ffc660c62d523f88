#include "controller/failure/recovery.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/logging.h"

namespace coxswain::failure {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Up to the next whole millisecond.
milliseconds Until(int64_t then_ns, int64_t now_ns) {
  if (then_ns <= now_ns) return milliseconds(0);
  return std::chrono::ceil<milliseconds>(nanoseconds(then_ns - now_ns));
}

}  // namespace

Recovery::Recovery(Loop* loop, StageLimits limits, Hooks hooks)
    : loop_(loop), limits_(limits), hooks_(std::move(hooks)) {}

milliseconds Recovery::LimitOf(state::RecoveryStage stage) const {
  switch (stage) {
    case state::RecoveryStage::kSuspect:
      return limits_.suspect;
    case state::RecoveryStage::kDump:
      return limits_.dump;
    case state::RecoveryStage::kAbort:
      return limits_.abort;
    case state::RecoveryStage::kKill:
      return limits_.kill;
    case state::RecoveryStage::kRespawn:
      return limits_.respawn + Until(not_before_ns_, loop_->clock().NowNs());
    case state::RecoveryStage::kReplace:
      return std::max(milliseconds(1), Until(keep_until_ns_, loop_->AttentiveNs()));
    case state::RecoveryStage::kNone:
    case state::RecoveryStage::kRequeue:
      break;
  }
  return milliseconds(0);
}

void Recovery::Happened(state::RecoveryEvent event) {
  const absl::StatusOr<state::RecoveryStage> next = state::Transition(stage_, event);
  if (!next.ok()) {
    log::Warning("an event of a recovery is out of order",
                 {{"error", std::string(next.status().message())}});
    return;
  }
  if (*next == stage_) return;
  stage_ = *next;
  loop_->CancelTimer(stage_timer_);
  if (stage_ == state::RecoveryStage::kNone) return;
  const milliseconds limit = LimitOf(stage_);
  if (limit > milliseconds(0)) {
    stage_timer_ =
        loop_->Deadline(limit, lifetime_.Wrap([this, stage = stage_] { hooks_.time_over(stage); }));
  }
  hooks_.entered(stage_, limit);
}

void Recovery::Wait(milliseconds wait) {
  not_before_ns_ = loop_->clock().NowNs() + nanoseconds(wait).count();
  loop_->CancelTimer(wait_timer_);
  wait_timer_ = loop_->After(wait + milliseconds(1), lifetime_.Wrap([this] {
    if (!Waits()) hooks_.try_again();
  }));
}

void Recovery::Keep() {
  keep_until_ns_ = loop_->AttentiveNs() + nanoseconds(limits_.keep).count();
  loop_->CancelTimer(keep_timer_);
  keep_timer_ =
      loop_->Deadline(limits_.keep + milliseconds(1), lifetime_.Wrap([this] { hooks_.kept(); }));
}

bool Recovery::Keeps() const { return loop_->AttentiveNs() < keep_until_ns_; }

}  // namespace coxswain::failure
