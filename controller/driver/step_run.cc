#include "controller/driver/step_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/failure_kind.h"
#include "common/fault_point.h"
#include "common/logging.h"
#include "common/outside_text.h"

namespace coxswain::driver {
namespace {

// An EVAL command holds at most this many tokens per rank, so that one command stays short.
constexpr int64_t kEvalTokensPerRank = 32768;

std::vector<std::span<const BinSize>> EvalParts(std::span<const BinSize> bins, int world_size) {
  std::vector<std::span<const BinSize>> parts;
  for (size_t begin = 0; begin < bins.size();) {
    size_t end = begin;
    int64_t tokens = 0;
    while (end < bins.size() &&
           (end == begin || tokens + bins[end].tokens <= kEvalTokensPerRank * world_size)) {
      tokens += bins[end++].tokens;
    }
    parts.push_back(bins.subspan(begin, end - begin));
    begin = end;
  }
  return parts;
}

const char* PhaseOf(const InFlight* command) {
  if (command == nullptr) return "run";
  switch (command->action) {
    case Action::kTrain:
      return "train";
    case Action::kEval:
      return "eval";
    case Action::kGenerate:
      return "generate";
    case Action::kSnapshot:
      return "snapshot";
    case Action::kEnd:
      return "stop";
  }
  return "run";
}

}  // namespace

StepRun::StepRun(const Deps& deps, const Gang* gang, StepRunArgs args, StepRunEvents events)
    : deps_(deps),
      gang_(gang),
      args_(std::move(args)),
      events_(std::move(events)),
      script_(args_.rules, args_.start.step),
      window_(gang->world_size(), deps.settings.credits),
      state_(args_.start),
      pace_(gang->world_size()),
      eval_bins_(args_.curriculum->eval_bins()),
      eval_parts_(EvalParts(eval_bins_, gang->world_size())),
      rank_reported_(gang->ranks.size(), false),
      answers_(
          std::make_shared<AnswerQueue>(deps_.loop, lifetime_.Wrap([this] { TakeAnswers(); }))) {
  if (args_.end_at > 0) script_.EndAt(args_.end_at);
  if (state_.early_stop.Exhausted(args_.patience)) script_.EndAt(state_.step);
}

void StepRun::Start() {
  last_progress_ns_ = last_commit_ns_ = deps_.loop->clock().NowNs();
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    Incoming<v1::Event> incoming;
    incoming.on_arrival = [queue = answers_, rank](v1::Event event) {
      queue->Push(rank, std::move(event));
    };
    incoming.on_closed = lifetime_.Wrap([this, rank](const absl::Status& status) {
      TakeAnswers();  // what it said before
      RankFailed(rank, absl::UnavailableError(
                           absl::StrCat("its command stream ended: ",
                                        status.ok() ? "closed" : std::string(status.message()))));
    });
    streams_.push_back(deps_.transport->Run(gang_->ranks[rank].target, std::move(incoming)));
  }
  deps_.loop->After(std::chrono::seconds(1), lifetime_.Wrap([this] { CheckHang(); }));
  Pump();
}

Where StepRun::At(int rank) const {
  return {.rank = rank, .host = gang_->ranks[rank].host, .phase = PhaseOf(window_.oldest())};
}

void StepRun::TakeAnswers() {
  if (ended_) return;
  const std::vector<Answer> answers = answers_->Take();
  bool accepted = false;
  for (const Answer& answer : answers) {
    if (!ended_) accepted = OnEvent(answer) || accepted;
  }
  while (errors_.empty() && !ended_) {
    std::optional<InFlight> command = window_.PopComplete();
    if (!command) break;
    Complete(*command);
  }
  written_ = false;
  if (accepted) Pump();
  if (ended_) return;
  if (!written_) Listen();
  answers_->Await(window_.oldest() == nullptr ? 1 : std::max(1, window_.oldest()->missing()));
  const int64_t now_ns = deps_.loop->clock().NowNs();
  for (const Answer& answer : answers) {
    deps_.metrics->Dispatch(static_cast<double>(now_ns - answer.received_ns) * 1e-9);
  }
}

// What no command follows is read all the same.
void StepRun::Listen() {
  for (auto& stream : streams_) stream->Listen();
}

// Whether the answer was to a command in flight.
bool StepRun::OnEvent(const Answer& answer) {
  const auto& [rank, received_ns, event] = answer;
  if (!gang_->IsCurrent(event.fence(), rank)) {
    deps_.metrics->FencedMessage();
    return false;
  }
  if (event.has_failed()) {
    v1::Error error = event.failed();
    error.set_message(CleanText(error.message()));
    error.set_rank(rank);
    error.set_host(gang_->ranks[rank].host);
    if (error.phase().empty()) error.set_phase(PhaseOf(window_.oldest()));
    if (error.kind() == v1::ERROR_KIND_UNSPECIFIED) {
      error.set_kind(FailureKind(ToStatus(error).code(), error.phase()));
    }
    rank_reported_[rank] = true;
    AddError(std::move(error));
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
      return true;
  }
  return false;
}

void StepRun::Complete(const InFlight& command) {
  switch (command.action) {
    case Action::kTrain:
      CompleteTrain(command);
      break;
    case Action::kEval:
      CompleteEval(command);
      break;
    case Action::kGenerate:
      CompleteAnswers(command);
      break;
    case Action::kSnapshot:
      CompleteSnapshot(command);
      break;
    case Action::kEnd:
      break;
  }
}

void StepRun::CompleteTrain(const InFlight& command) {
  fault::Pass(fault::Point::kStepDone, {.step = command.step});
  absl::StatusOr<StepResult> result = CommitStep(command);
  if (!result.ok()) {
    GiveUp(result.status());
    return;
  }
  const int64_t now_ns = deps_.loop->clock().NowNs();
  if (pace_skips_ > 0) {
    --pace_skips_;
  } else {
    pace_.Add(command);
  }
  timing_.Add(std::max(last_commit_ns_, command.sent_ns), now_ns, result->tokens);
  last_commit_ns_ = now_ns;
  state_.step = result->step + 1;
  state_.tokens += result->tokens;
  state_.loss = result->loss;
  state_.grad_norm = result->grad_norm;
  state_.seconds += timing_.last_seconds();
  state_.applied_updates += result->applied;
  state_.skipped.Add(result->step, !result->applied);
  if (!result->applied) {
    std::vector<int64_t> bins;
    for (const auto& dealt : command.bins) bins.insert(bins.end(), dealt.begin(), dealt.end());
    std::sort(bins.begin(), bins.end());
    skipped_bins_.push_back(absl::StrCat("step ", result->step, ": ", absl::StrJoin(bins, " ")));
  }
  events_.on_step(*result, command);
  if (state_.skipped.TooMany()) {
    GiveUp(absl::FailedPreconditionError(absl::StrCat(
        "too many steps with a non-finite gradient norm (", state_.skipped.in_a_row, " in a row, ",
        state_.skipped.recent.size(),
        " of the last 1000; allowed 3 and 10). Bins by step: ", absl::StrJoin(skipped_bins_, "; "),
        ". Lower train.learning_rate, or look at these documents with cox data preview")));
  }
}

void StepRun::CompleteEval(const InFlight& command) {
  const absl::Status added = AddEval(command, &eval_sum_);
  if (!added.ok()) {
    GiveUp(added);
    return;
  }
  if (eval_began_ns_ < 0) eval_began_ns_ = std::max(last_commit_ns_, command.sent_ns);
  if (!command.last_part) return;
  const EvalSum sum = std::exchange(eval_sum_, EvalSum());
  eval_outstanding_ = false;
  last_commit_ns_ = deps_.loop->clock().NowNs();
  const double seconds =
      static_cast<double>(last_commit_ns_ - std::exchange(eval_began_ns_, -1)) * 1e-9;
  const double targets = static_cast<double>(std::max<int64_t>(sum.targets, 1));
  const checkpoint::EvalPoint point{
      .step = command.step,
      .loss = sum.loss_sum / targets,
      .seconds = seconds,
      .token_accuracy = static_cast<double>(sum.correct_targets) / targets};
  state_.seconds += seconds;
  state_.evals.push_back(point);
  const bool is_best = state_.early_stop.Add(point);
  events_.on_eval(point, is_best);
  if (!args_.patience.has_value()) return;
  if (is_best && point.step > 0) script_.RequestSnapshot();
  if (state_.early_stop.Exhausted(args_.patience)) script_.EndAt(point.step);
}

// Pieces behind the last token say nothing.
void StepRun::CompleteAnswers(const InFlight& command) {
  if (command.first_part) {
    written_answers_.Begin(args_.curriculum->questions().ids.size());
    answers_began_ns_ = std::max(last_commit_ns_, command.sent_ns);
  }
  last_commit_ns_ = deps_.loop->clock().NowNs();
  if (answered_step_ == command.step) return;
  if (const absl::Status added = written_answers_.Add(command); !added.ok()) {
    GiveUp(added);
    return;
  }
  const bool whole = command.last_part || written_answers_.AllEnded();
  if (whole) answered_step_ = command.step;
  const double seconds = static_cast<double>(last_commit_ns_ - answers_began_ns_) * 1e-9;
  events_.on_answers(command.step, written_answers_, seconds, whole);
}

void StepRun::CompleteSnapshot(const InFlight& command) {
  events_.on_snapshot(command.step, command.sent_ns);
}

void StepRun::SaveFinished() {
  SetSaving(false);
  last_progress_ns_ = deps_.loop->clock().NowNs();
  Pump();
}

void StepRun::Drain(bool with_snapshot) {
  if (with_snapshot) {
    script_.EndAt(script_.step());
  } else {
    script_.EndNow();
  }
  Pump();
}

void StepRun::End() {
  ended_ = true;
  InFlight& stop = window_.Push(Action::kEnd, script_.step());
  v1::Command shared;
  shared.mutable_stop();
  Broadcast(stop, std::move(shared), [](int, v1::Command*) {});
  for (auto& stream : streams_) stream->WritesDone();
  events_.on_end();
}

void StepRun::RankFailed(int rank, const absl::Status& status) {
  if (ended_ || rank_reported_[rank]) return;
  rank_reported_[rank] = true;
  AddError(MakeError(status, At(rank)), /*first_hand=*/true);
}

void StepRun::GiveUp(const absl::Status& status) {
  if (ended_) return;
  errors_.push_back(MakeError(status, {.phase = PhaseOf(window_.oldest())}));
  Conclude();
}

// The first error seen is often only the echo of another rank's: the verdict waits for the others.
// What is seen of a rank here goes before what others tell of it.
void StepRun::AddError(v1::Error error, bool first_hand) {
  if (ended_) return;
  log::Warning("rank failed", {{"job", gang_->job},
                               {"epoch", gang_->epoch},
                               {"rank", error.rank()},
                               {"error", Describe(error)}});
  Listen();  // to what the other ranks say
  const bool first = errors_.empty();
  const bool final = error.kind() == v1::ERROR_KIND_USER;
  errors_.insert(first_hand ? errors_.begin() : errors_.end(), std::move(error));
  const bool all = std::all_of(rank_reported_.begin(), rank_reported_.end(),
                               [](bool reported) { return reported; });
  if (final || all) {
    Conclude();
  } else if (first) {
    deps_.loop->Deadline(deps_.settings.verdict_window, lifetime_.Wrap([this] { Conclude(); }));
  }
}

void StepRun::Conclude() {
  if (ended_) return;
  ended_ = true;
  v1::Error error = RootCause(errors_);
  if (error.kind() == v1::ERROR_KIND_SYSTEM && gang_->world_size() > 1) {
    absl::StrAppend(error.mutable_message(), DescribeCollectives(BeatsOf(*gang_, *deps_.registry)));
  }
  events_.on_failed(error);
}

// While the loop stalls, one rank may have its command and wait for another that has not.
std::chrono::milliseconds StepRun::StallsSince(const InFlight& command) const {
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::nanoseconds(deps_.loop->stalled_ns() - command.stalled_ns));
}

// A live rank that others wait for. A checkpoint in progress keeps a rank from the next step.
std::optional<Suspect> StepRun::LookForSuspect() const {
  const InFlight* oldest = window_.oldest();
  if (gang_->world_size() == 1 || saving_ || oldest == nullptr) return std::nullopt;
  if (oldest->action != Action::kTrain) return std::nullopt;
  RankBeats beats = BeatsOf(*gang_, *deps_.registry);
  for (v1::HeartbeatRequest& beat : beats) {
    // Of a command that every rank has answered since.
    if (beat.last_done_seq() + 1 < oldest->seq) beat.clear_collectives();
  }
  return FindSuspect(beats, timing_.CollectiveLimit(deps_.settings.first_step_timeout,
                                                    deps_.settings.collective_floor) +
                                StallsSince(*oldest));
}

void StepRun::CheckHang() {
  TakeAnswers();
  if (ended_) return;
  if (const std::optional<Suspect> suspect = LookForSuspect()) {
    const absl::Status status = absl::DeadlineExceededError(suspect->message);
    if (suspect->rank < 0) {
      GiveUp(status);
    } else {
      RankFailed(suspect->rank, status);
      Conclude();
    }
    return;
  }
  const InFlight* oldest = window_.oldest();
  if (oldest != nullptr) {
    const bool is_train = oldest->action == Action::kTrain;
    const std::chrono::milliseconds first = deps_.settings.first_step_timeout;
    const std::chrono::milliseconds limit =
        (is_train ? timing_.HangLimit(first, deps_.settings.hang_floor) : first) +
        StallsSince(*oldest);
    const int64_t silent_ns = deps_.loop->clock().NowNs() - last_progress_ns_;
    if (silent_ns > std::chrono::nanoseconds(limit).count()) {
      std::vector<int> missing;
      for (int rank = 0; rank < gang_->world_size(); ++rank) {
        if (!oldest->results[rank]) missing.push_back(rank);
      }
      GiveUp(absl::DeadlineExceededError(absl::StrCat(
          "no answer to command ", oldest->seq, " (", PhaseOf(oldest), " of step ", oldest->step,
          ") from ranks ", absl::StrJoin(missing, ", "), " for ", silent_ns / 1000000,
          " ms, limit ", limit.count(), " ms: taken for a hang")));
      return;
    }
  }
  deps_.loop->After(std::chrono::seconds(1), lifetime_.Wrap([this] { CheckHang(); }));
}

}  // namespace coxswain::driver
