// GangSession: how it is noticed that something is wrong, and what it was.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/logging.h"
#include "controller/gang/gang_session.h"

namespace coxswain::gang {

failure::Where GangSession::At(int rank) const {
  const InFlight* oldest = window_.oldest();
  return {.rank = rank,
          .host = gang_.ranks[rank].host,
          .phase = oldest == nullptr ? "run" : oldest->phase};
}

void GangSession::RankFailed(int rank, const absl::Status& status) {
  if (over_ || errors_.Knows(rank)) return;
  const v1::Error error = failure::MakeError(status, At(rank));
  errors_.Seen(rank, error);
  Noticed(error);
}

void GangSession::GiveUp(v1::Error error) {
  if (over_) return;
  errors_.OfGang(std::move(error));
  Conclude();
}

void GangSession::Noticed(const v1::Error& error) {
  log::Warning("rank failed", {{"job", gang_.job},
                               {"epoch", gang_.epoch},
                               {"rank", error.rank()},
                               {"error", failure::Describe(error)}});
  for (auto& stream : streams_) stream->Listen();  // to what the other ranks say
  if (events_.suspected) events_.suspected(error);
  if (errors_.Settled()) Conclude();
}

void GangSession::Conclude() {
  if (over_ || errors_.empty()) return;
  over_ = true;
  v1::Error error = errors_.Verdict();
  if (error.kind() == v1::ERROR_KIND_SYSTEM && gang_.world_size() > 1) {
    absl::StrAppend(error.mutable_message(), DescribeCollectives(BeatsOf(gang_, *deps_.registry)));
  }
  events_.failed(error);
}

// While the loop stalls, one rank may have its command and wait for another that has not.
std::chrono::milliseconds GangSession::StallsSince(const InFlight& command) const {
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::nanoseconds(deps_.loop->stalled_ns() - command.stalled_ns));
}

// A live rank that others wait for. A checkpoint in progress keeps a rank from the next step.
std::optional<Suspect> GangSession::LookForSuspect() const {
  const InFlight* oldest = window_.oldest();
  if (gang_.world_size() == 1 || program_->saving() || oldest == nullptr) return std::nullopt;
  if (oldest->turn != Turn::kStep) return std::nullopt;
  // Ranks that had it before may have waited in it for as long as there was no controller.
  if (oldest->again) return std::nullopt;
  RankBeats beats = BeatsOf(gang_, *deps_.registry);
  for (v1::HeartbeatRequest& beat : beats) {
    // Of a command that every rank has answered since.
    if (beat.last_done_seq() + 1 < oldest->seq) beat.clear_collectives();
  }
  const bool warming_up = timing_.warming_up();
  if (warming_up && Still() <= deps_.settings.first_step_timeout) return std::nullopt;
  return FindSuspect(beats, timing_.CollectiveLimit(deps_.settings.first_step_timeout,
                                                    deps_.settings.collective_floor) +
                                StallsSince(*oldest));
}

RankView GangSession::View(int rank) const {
  const Rank& of = gang_.ranks[rank];
  const int64_t now_ns = deps_.loop->clock().NowNs();
  RankView view{.answered_seq = window_.answered(rank),
                .silent_seconds = static_cast<double>(now_ns - heard_ns_[rank]) * 1e-9,
                .in_flight = window_.size(),
                .credits = Credits()};
  const scheduler::Worker* worker = deps_.registry->Find(of.target.incarnation);
  if (worker == nullptr) {
    view.phase = "gone";
    return view;
  }
  view.phase = std::string(state::PhaseName(worker->status.phase));
  view.suspect = worker->status.suspect;
  view.beat_age_seconds = deps_.registry->BeatAgeSeconds(*worker);
  const v1::Fence& current = worker->beat.current();
  if (current.job() == gang_.job && current.epoch() == gang_.epoch) view.beat = worker->beat;
  return view;
}

// OK unless no rank has answered for too long.
absl::Status GangSession::Silence() const {
  const InFlight* oldest = window_.oldest();
  if (oldest == nullptr) return absl::OkStatus();
  const std::chrono::milliseconds first = deps_.settings.first_step_timeout;
  const std::chrono::milliseconds limit =
      (oldest->turn == Turn::kStep ? timing_.HangLimit(first, deps_.settings.hang_floor) : first) +
      StallsSince(*oldest);
  int64_t silent_ns = deps_.loop->clock().NowNs() - last_progress_ns_;
  if (timing_.warming_up()) {
    silent_ns = std::min<int64_t>(silent_ns, std::chrono::nanoseconds(Still()).count());
  }
  if (silent_ns <= std::chrono::nanoseconds(limit).count()) return absl::OkStatus();
  std::vector<int> missing;
  for (int rank = 0; rank < gang_.world_size(); ++rank) {
    if (!oldest->results[rank]) missing.push_back(rank);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("no answer to command ", oldest->seq, " (", oldest->phase, " of step ",
                   oldest->step, ") from ranks ", absl::StrJoin(missing, ", "), " for ",
                   silent_ns / 1000000, " ms, limit ", limit.count(), " ms: taken for a hang"));
}

// For how long no rank has got on: steps may be slow for the first time, and long.
std::chrono::milliseconds GangSession::Still() const {
  std::chrono::milliseconds least = watch_->Still(0);
  for (int rank = 1; rank < gang_.world_size(); ++rank) {
    least = std::min(least, watch_->Still(rank));
  }
  return least;
}

void GangSession::CheckHang() {
  TakeAnswers();
  if (over_) return;
  if (!watch_) watch_.emplace(deps_, &gang_, StallWatch::Of::kWork);
  watch_->Look();
  if (const std::optional<Suspect> suspect = LookForSuspect()) {
    const absl::Status status = absl::DeadlineExceededError(suspect->message);
    if (suspect->rank < 0) {
      GiveUp(failure::MakeError(status, {.phase = window_.oldest()->phase}));
    } else {
      RankFailed(suspect->rank, status);
      Conclude();
    }
    return;
  }
  if (const absl::Status silence = Silence(); !silence.ok()) {
    GiveUp(failure::MakeError(silence, {.phase = window_.oldest()->phase}));
    return;
  }
  deps_.loop->After(std::chrono::seconds(1), lifetime_.Wrap([this] { CheckHang(); }));
}

}  // namespace coxswain::gang
