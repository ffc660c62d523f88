// GangSession: commands out, answers in.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "controller/gang/gang_session.h"

namespace coxswain::gang {

int GangSession::Credits() const {
  const Settings& settings = deps_.settings;
  const double step_seconds = timing_.median_seconds();
  const bool ahead = program_ != nullptr && program_->MayGoAhead();
  if (settings.credits == 1 || step_seconds <= 0 || !ahead) return settings.credits;
  const double steps = std::chrono::duration<double>(settings.ahead).count() / step_seconds;
  return std::clamp(1 + static_cast<int>(std::ceil(std::min<double>(steps, kMostCredits))),
                    settings.credits, kMostCredits);
}

void GangSession::Pump() {
  while (!over_ && program_ != nullptr && errors_.empty() && !window_.full(Credits())) {
    std::optional<Order> order = program_->Next();
    if (!order) return;
    Send(*std::move(order));
  }
}

void GangSession::Send(Order order) {
  InFlight& command = window_.Push(order.turn, order.phase, order.step);
  command.sent_ns = deps_.loop->clock().NowNs();
  command.stalled_ns = deps_.loop->stalled_ns();
  if (window_.size() == 1) last_progress_ns_ = command.sent_ns;
  const v1::Command::KindCase kind = order.command.kind_case();
  Broadcast(command, std::move(order));
  if (kind == v1::Command::kTrain) fault::Pass(fault::Point::kTrainSent, {.step = command.step});
  if (kind == v1::Command::kSnapshot) {
    fault::Pass(fault::Point::kSnapshotSent, {.step = command.step});
  }
  if (kind != v1::Command::kStop) return;
  over_ = true;
  for (auto& stream : streams_) stream->WritesDone();
  events_.ended();
}

void GangSession::Broadcast(const InFlight& command, Order order) {
  *order.command.mutable_fence() = gang_.SharedFence();
  order.command.set_seq(command.seq);
  const SharedCommand head(std::move(order.command));
  written_ = true;
  deps_.fan_out->ForAll(gang_.world_size(), [&](int begin, int end) {
    for (int rank = begin; rank < end; ++rank) {
      v1::Command own;
      own.mutable_fence()->set_worker_incarnation(gang_.ranks[rank].target.incarnation);
      if (order.fill) order.fill(rank, &own);
      streams_[rank]->Write(head, own);
    }
    for (int rank = begin; rank < end; ++rank) streams_[rank]->Flush();
  });
  deps_.metrics->Credits(gang_.job, window_.size());
}

void GangSession::TakeAnswers() {
  if (over_) return;
  const std::vector<Answer> answers = answers_->Take();
  bool accepted = false;
  for (const Answer& answer : answers) {
    if (!over_) accepted = OnAnswer(answer) || accepted;
  }
  while (errors_.empty() && !over_) {
    std::optional<InFlight> command = window_.PopComplete();
    if (!command) break;
    Complete(*std::move(command));
  }
  written_ = false;
  if (accepted) Pump();
  if (over_) return;
  if (!written_) {  // what no command follows is read all the same
    for (auto& stream : streams_) stream->Listen();
  }
  answers_->Await(window_.oldest() == nullptr ? 1 : std::max(1, window_.oldest()->missing()));
  const int64_t now_ns = deps_.loop->clock().NowNs();
  for (const Answer& answer : answers) {
    deps_.metrics->Dispatch(static_cast<double>(now_ns - answer.received_ns) * 1e-9);
  }
}

// Whether the answer was to a command in flight.
bool GangSession::OnAnswer(const Answer& answer) {
  const auto& [rank, received_ns, event] = answer;
  if (!gang_.IsCurrent(event.fence(), rank)) {
    deps_.metrics->FencedMessage();
    return false;
  }
  if (event.has_failed()) {
    const v1::Error error = failure::ToldBy(At(rank), event.failed());
    errors_.Told(rank, error);
    Noticed(error);
    return false;
  }
  switch (window_.Receive(rank, event.seq(), event.done())) {
    case CommandWindow::Receipt::kDuplicate:
      deps_.metrics->FencedMessage();
      return false;
    case CommandWindow::Receipt::kOutOfOrder:
      RankFailed(rank, absl::InternalError(
                           absl::StrCat("answered command ", event.seq(), " out of order")));
      return false;
    case CommandWindow::Receipt::kAccepted:
      last_progress_ns_ = std::max(last_progress_ns_, received_ns);
      heard_ns_[rank] = received_ns;
      return true;
  }
  return false;
}

void GangSession::Complete(InFlight command) {
  command.done_ns = deps_.loop->clock().NowNs();
  command.began_ns = std::max(last_done_ns_, command.sent_ns);
  if (command.turn != Turn::kBeside) last_done_ns_ = command.done_ns;
  if (command.turn == Turn::kStep && !command.again) {
    timing_.Add(command.seconds());
    if (pace_skips_ > 0) {
      --pace_skips_;
    } else {
      pace_.Add(command);
    }
  }
  if (std::optional<v1::Error> error = program_->Take(command)) {
    GiveUp(*std::move(error));
    return;
  }
  taken_ = command.seq;
  if (events_.taken) events_.taken();
  if (command.turn == Turn::kStep && events_.stepped) events_.stepped();
}

}  // namespace coxswain::gang
