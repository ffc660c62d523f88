#include "worker/agent/epoch_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"

namespace coxswain::agent {
namespace {

std::string Name(const v1::Fence& fence) {
  return absl::StrCat("job ", fence.job(), " gang epoch ", fence.epoch());
}

}  // namespace

void EpochGate::SeeTerm(uint64_t term) { highest_term_ = std::max(highest_term_, term); }

absl::Status EpochGate::Refuse(const std::string& message) {
  ++refused_;
  return absl::AbortedError(message);
}

absl::Status EpochGate::CheckSender(const v1::Fence& fence) {
  if (fence.worker_incarnation() != incarnation_) {
    return Refuse(absl::StrCat("stale fence: the message is for worker incarnation ",
                               fence.worker_incarnation(), ", this process is ", incarnation_));
  }
  if (fence.term() < highest_term_) {
    return Refuse(absl::StrCat("stale fence: the message has controller term ", fence.term(),
                               ", this worker has seen term ", highest_term_));
  }
  if (current_ && current_->store() != fence.store()) {
    return Refuse(absl::StrCat("stale fence: the message is of a controller with store ",
                               fence.store(), ", this worker is in ", Name(*current_), " of store ",
                               current_->store(), " until that has ended"));
  }
  SeeTerm(fence.term());
  return absl::OkStatus();
}

absl::StatusOr<bool> EpochGate::CheckOpen(const v1::Fence& fence) {
  RETURN_IF_ERROR(CheckSender(fence));
  if (fence.job().empty() || fence.epoch() == 0) {
    return absl::InvalidArgumentError("fence without job or gang epoch");
  }
  Number past = ended_[fence.job()];
  if (current_ && current_->job() == fence.job()) {
    past = std::max(past, Number(current_->term(), current_->epoch()));
  }
  if (Number(fence.term(), fence.epoch()) <= past) {
    return Refuse(absl::StrCat("stale fence: Prepare of ", Name(fence), " in term ", fence.term(),
                               ", this worker is at gang epoch ", past.second, " of that job in ",
                               "term ", past.first));
  }
  if (!current_) return false;
  if (current_->job() != fence.job() && current_->term() == fence.term()) {
    return Refuse(absl::StrCat("stale fence: Prepare of ", Name(fence), ", this worker is in ",
                               Name(*current_), "; release or abort that first"));
  }
  return true;
}

void EpochGate::Open(const v1::Fence& fence) { current_ = fence; }

absl::Status EpochGate::Check(const v1::Fence& fence) {
  RETURN_IF_ERROR(CheckSender(fence));
  if (!current_) {
    return Refuse(absl::StrCat("stale fence: the message is for ", Name(fence),
                               ", this worker is in no gang epoch",
                               end_reason_.empty() ? "" : "; the last one ended: ", end_reason_));
  }
  if (fence.job() != current_->job() || fence.epoch() != current_->epoch()) {
    return Refuse(absl::StrCat("stale fence: the message is for ", Name(fence),
                               ", this worker is in ", Name(*current_)));
  }
  if (fence.plan_hash() != current_->plan_hash()) {
    return Refuse(absl::StrCat("stale fence: the message has plan ", ToHex(fence.plan_hash()), ", ",
                               Name(*current_), " was prepared with ",
                               ToHex(current_->plan_hash())));
  }
  current_->set_term(fence.term());
  return absl::OkStatus();
}

absl::StatusOr<bool> EpochGate::CheckEnd(const v1::Fence& fence, uint64_t gang_term) {
  RETURN_IF_ERROR(CheckSender(fence));
  const Number named(gang_term == 0 ? fence.term() : gang_term, fence.epoch());
  if (current_ && current_->job() == fence.job()) {
    if (fence.epoch() == current_->epoch()) return true;
    if (named < Number(current_->term(), current_->epoch())) {
      return Refuse(absl::StrCat("stale fence: the message is for ", Name(fence),
                                 ", this worker is in ", Name(*current_)));
    }
  }
  Number& ended = ended_[fence.job()];
  ended = std::max(ended, named);
  return false;
}

void EpochGate::Close(const std::string& reason) {
  if (!current_) return;
  Number& ended = ended_[current_->job()];
  ended = std::max(ended, Number(current_->term(), current_->epoch()));
  end_reason_ = absl::StrCat(Name(*current_), ": ", reason);
  current_.reset();
}

}  // namespace coxswain::agent
