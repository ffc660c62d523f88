#include "controller/driver/training/training.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/faults/fault_point.h"
#include "controller/failure/errors.h"

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

void AddReferences(const std::vector<double>& sums, v1::Bins* bins) {
  bins->mutable_references()->Add(sums.begin(), sums.end());
}

std::string BinsOf(const Batch& batch) {
  std::vector<int64_t> bins;
  for (const auto& dealt : batch.bins) bins.insert(bins.end(), dealt.begin(), dealt.end());
  std::sort(bins.begin(), bins.end());
  return absl::StrCat("step ", batch.step, ": ", absl::StrJoin(bins, " "));
}

// A head of scores tells no tokens.
std::optional<double> TokenAccuracy(const EvalSum& sum) {
  if (sum.preference && sum.preference->of() != v1::Preference::LOG_PROBS) return std::nullopt;
  return static_cast<double>(sum.correct_targets) /
         static_cast<double>(std::max<int64_t>(sum.targets, 1));
}

void AddTo(const v1::Preference& means, checkpoint::EvalPoint* point) {
  const bool labels = means.of() == v1::Preference::LABELS;
  const bool rewards = !labels && means.of() != v1::Preference::NUMBERS;
  if (rewards) point->margin = means.rewards_chosen() - means.rewards_rejected();
  if (labels || means.pairs()) point->accuracy = means.accuracies();
}

}  // namespace

Training::Training(const gang::Gang* gang, TrainingArgs args, TrainingEvents events)
    : gang_(gang),
      args_(std::move(args)),
      events_(std::move(events)),
      script_(args_.position ? StepScript(args_.rules, args_.position->script)
                             : StepScript(args_.rules, args_.start.step)),
      state_(args_.start),
      asking_(&args_.curriculum->questions(), events_.on_answers),
      again_(args_.sent_before.begin(), args_.sent_before.end()),
      eval_bins_(args_.curriculum->eval_bins()),
      eval_parts_(EvalParts(eval_bins_, gang->world_size())),
      references_(args_.curriculum.get(), eval_parts_, args_.references, events_.on_references),
      kl_(args_.curriculum.get(), &references_),
      proof_(args_.curriculum.get(), events_.proof) {
  if (args_.end_at > 0) script_.EndAt(args_.end_at);
  if (args_.drains_at) script_.EndAt(*args_.drains_at);
  drains_ = stops_early_ = args_.drains_at.has_value();
  if (state_.early_stop.Exhausted(args_.patience)) script_.EndAt(state_.step);
  if (!args_.position || SnapshotSentBefore()) return;
  saving_run_ = args_.position->saving;
  SetSaving(saving_run_.has_value());
}

// The checkpoint of every earlier snapshot is finished then, and ranks no longer hold its state.
bool Training::SnapshotSentBefore() const {
  return std::find(again_.begin(), again_.end(), v1::COMMAND_KIND_SNAPSHOT) != again_.end();
}

// With early stopping an evaluation is a barrier.
bool Training::MaySend(Action action) const {
  const bool between_parts = next_eval_part_ != 0;
  if (eval_outstanding_ && args_.patience.has_value() && !between_parts) return false;
  if (action == Action::kSnapshot) return !saving_;
  if (action == Action::kEnd) return in_flight_.empty() && !saving_;
  return true;
}

void Training::Advance() {
  const bool owed = script_.owes_snapshot();
  const int64_t step = script_.step();
  script_.Advance();
  if (!owed && script_.owes_snapshot() && again_.empty()) events_.on_snapshot_delayed(step);
}

void Training::SetSaving(bool saving) {
  saving_ = saving;
  script_.SetSaving(saving);
}

void Training::SaveFinished() {
  saving_run_.reset();
  SetSaving(false);
}

// What was sent before is sent again in its order. All of that follows from the script but two
// things, which depended on time: whether a checkpoint was being written, which snapshots by count
// wait for, and how many pieces of answers were asked for before all had ended.
std::optional<gang::Order> Training::Next() {
  const bool again = !again_.empty();
  script_.SetSaving(again ? again_.front() != v1::COMMAND_KIND_SNAPSHOT : saving_);
  std::optional<gang::Order> order = NextOrder();
  if (order && again) again_.pop_front();
  if (again) script_.SetSaving(saving_);
  return order;
}

std::optional<gang::Order> Training::AskReferences() {
  std::optional<gang::Order> order =
      references_.Ask([this](std::span<const BinSize> bins) { return Deal(bins); });
  if (order) in_flight_.push_back({.action = std::nullopt, .before = script_.place()});
  return order;
}

// Who goes on from here would ask again for a term that is already asked for.
bool Training::TakesKl() const {
  const auto took = [](const Sent& sent) {
    return sent.action == Action::kTrain || sent.action == Action::kEval;
  };
  return args_.curriculum->has_kl() &&
         (kl_.Holds() || std::any_of(in_flight_.begin(), in_flight_.end(), took));
}

// The weights of the term are those of the step or evaluation that takes it: what came before is
// done. So is what a position is recorded of. A run that is stopped meanwhile takes no term.
bool Training::WantsKl() const {
  const Action next = script_.next();
  return (next == Action::kTrain && !kl_.Knows(script_.step())) ||
         (next == Action::kEval && next_eval_part_ == 0 && !kl_.Knows(-1));
}

std::optional<gang::Order> Training::AskKl() {
  if (!kl_.InProgress() && !in_flight_.empty()) return std::nullopt;
  const auto deal = [this](std::span<const BinSize> bins) { return Deal(bins); };
  std::optional<gang::Order> order;
  if (script_.next() == Action::kEval) {
    order = kl_.Ask(-1, eval_parts_, deal);
  } else {
    const std::vector<BinSize> bins = args_.curriculum->step_bins(script_.step());
    const std::span<const BinSize> parts[] = {bins};
    order = kl_.Ask(script_.step(), parts, deal);
  }
  if (order) in_flight_.push_back({.action = std::nullopt, .before = script_.place()});
  return order;
}

// The last questions, about records, of which several may be on their way.
std::optional<gang::Order> Training::AskProof() {
  const bool all_proves = std::all_of(in_flight_.begin(), in_flight_.end(),
                                      [](const Sent& sent) { return sent.proves; });
  if (saving_ || !all_proves) return std::nullopt;
  std::optional<gang::Order> order =
      proof_.Ask(script_.step(), [this](std::span<const BinSize> bins) { return Deal(bins); });
  if (order) {
    in_flight_.push_back({.action = std::nullopt, .proves = true, .before = script_.place()});
    return order;
  }
  if (!proof_.ended() || !in_flight_.empty()) return std::nullopt;
  return gang::StopOrder(script_.step());
}

std::optional<gang::Order> Training::NextOrder() {
  if (references_.pending() && script_.next() != Action::kEnd) return AskReferences();
  if (WantsKl()) return AskKl();
  if (script_.next() == Action::kEnd && WantsProof()) return AskProof();
  while (MaySend(script_.next())) {
    switch (script_.next()) {
      case Action::kTrain:
        return TrainOrder();
      case Action::kEval:
        return EvalOrder();
      case Action::kSnapshot:
        return SnapshotOrder();
      case Action::kEnd:
        return gang::StopOrder(script_.step());
      case Action::kGenerate: {
        std::optional<gang::Order> order = AnswersOrder();
        if (order || script_.next() == Action::kGenerate) return order;
        break;
      }
    }
  }
  return std::nullopt;
}

std::shared_ptr<const Batch> Training::Deal(std::span<const BinSize> bins) const {
  return std::make_shared<const Batch>(
      DealBatch(script_.step(), bins, *gang_, args_.work, args_.micro_batch_bins));
}

gang::Order Training::TrainOrder() {
  const Curriculum& curriculum = *args_.curriculum;
  const int64_t step = script_.step();
  const std::shared_ptr<const Batch> batch = Deal(curriculum.step_bins(step));
  gang::Order order{.phase = "train", .step = step};
  v1::Train& train = *order.command.mutable_train();
  train.set_step(step);
  train.set_loss_denominator(batch->denominator);
  if (curriculum.document_loss()) {
    *train.mutable_documents() = DocumentScalarsOf(batch->denominator, batch->nll_rows);
    train.mutable_documents()->set_kl(kl_.kl());
  }
  train.set_learning_rate(curriculum.learning_rate(step));
  train.mutable_bins()->set_micro_steps(batch->micro_steps);
  order.fill = [this, &curriculum, batch](int rank, v1::Command* own) {
    v1::Bins* const bins = own->mutable_train()->mutable_bins();
    curriculum.FillTrain(batch->step, batch->bins[rank], batch->forms[rank], bins);
    AddReferences(references_.SumsOf(batch->step, batch->bins[rank], Side::kTrained), bins);
  };
  in_flight_.push_back({.action = Action::kTrain, .batch = batch, .before = script_.place()});
  Advance();
  kl_.Forget();
  return order;
}

// Of the whole evaluation, of which a command has a part.
v1::DocumentScalars Training::EvalScalars() const {
  int64_t units = 0, nll_rows = 0;
  for (const BinSize& bin : eval_bins_) {
    units += bin.units;
    nll_rows += bin.nll_rows;
  }
  return DocumentScalarsOf(units, nll_rows);
}

gang::Order Training::EvalOrder() {
  const std::shared_ptr<const Batch> batch = Deal(eval_parts_[next_eval_part_]);
  gang::Order order{.turn = gang::Turn::kBetween, .phase = "eval", .step = batch->step};
  order.command.mutable_eval()->set_step(batch->step);
  if (args_.curriculum->document_loss()) {
    *order.command.mutable_eval()->mutable_documents() = EvalScalars();
    order.command.mutable_eval()->mutable_documents()->set_kl(kl_.kl());
  }
  order.command.mutable_eval()->mutable_bins()->set_micro_steps(batch->micro_steps);
  order.fill = [this, batch](int rank, v1::Command* own) {
    v1::Bins* const bins = own->mutable_eval()->mutable_bins();
    args_.curriculum->FillEval(batch->bins[rank], batch->forms[rank], bins);
    AddReferences(references_.SumsOf(-1, batch->bins[rank], Side::kTrained), bins);
  };
  Sent sent{.action = Action::kEval,
            .first_part = next_eval_part_ == 0,
            .batch = batch,
            .before = script_.place()};
  sent.last_part = ++next_eval_part_ == eval_parts_.size();
  in_flight_.push_back(sent);
  eval_outstanding_ = true;
  if (sent.last_part) {
    next_eval_part_ = 0;
    Advance();
    kl_.Forget();
  }
  return order;
}

gang::Order Training::SnapshotOrder() {
  gang::Order order{.turn = gang::Turn::kBeside, .phase = "snapshot", .step = script_.step()};
  order.command.mutable_snapshot()->set_step(script_.step());
  const bool saved = std::count(again_.begin(), again_.end(), v1::COMMAND_KIND_SNAPSHOT) > 1;
  in_flight_.push_back({.action = Action::kSnapshot, .saved = saved, .before = script_.place()});
  Advance();
  if (!saved) SetSaving(true);
  return order;
}

// Nothing, and the script stays: these answers are to come before the next command.
std::optional<gang::Order> Training::AnswersOrder() {
  const bool again = !again_.empty();
  const bool asked_before = again && again_.front() == v1::COMMAND_KIND_GENERATE;
  if (again && !asked_before && asking_.Waits()) return std::nullopt;
  const ScriptPlace before = script_.place();
  std::optional<gang::Order> order = asking_.Ask(script_.step(), asked_before);
  if (asking_.AllAsked()) Advance();
  if (order) in_flight_.push_back({.action = Action::kGenerate, .before = before});
  return order;
}

std::optional<v1::Error> Training::Take(const gang::InFlight& command) {
  const Sent sent = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (sent.batch != nullptr) {
    const absl::Status intact = args_.curriculum->Intact();  // of what its commands carried
    if (!intact.ok()) return failure::MakeError(intact, {.phase = "prepare_data"});
  }
  if (!sent.action) {
    const absl::Status taken = sent.proves             ? proof_.Take(command)
                               : references_.pending() ? references_.Take(command)
                                                       : kl_.Take(command);
    if (taken.ok()) return std::nullopt;
    return failure::MakeError(taken, {.phase = command.phase});
  }
  switch (*sent.action) {
    case Action::kTrain:
      return TakeStep(*sent.batch, command);
    case Action::kEval:
      return TakeEval(sent, command);
    case Action::kGenerate:
      return asking_.Take(command);
    case Action::kSnapshot:
      if (sent.saved) break;
      saving_run_ = state_;
      events_.on_snapshot(this, command.sent_ns);
      break;
    case Action::kEnd:
      break;
  }
  return std::nullopt;
}

std::optional<v1::Error> Training::TakeStep(const Batch& batch, const gang::InFlight& command) {
  fault::Pass(fault::Point::kStepDone, {.step = batch.step});
  const absl::StatusOr<StepResult> result = CommitStep(batch, command);
  if (!result.ok()) return failure::MakeError(result.status(), {.phase = command.phase});
  state_.step = result->step + 1;
  state_.tokens += result->tokens;
  state_.loss = result->loss;
  state_.grad_norm = result->grad_norm;
  state_.seconds += command.seconds();
  state_.applied_updates += result->applied;
  state_.skipped.Add(result->step, !result->applied);
  state_.loss_trend.Add(state_.step, state_.loss);
  std::optional<v1::Error> error = events_.on_step(*result, batch, command, state_);
  return error ? error : CheckSkipped(*result, batch);
}

std::optional<v1::Error> Training::CheckSkipped(const StepResult& result, const Batch& batch) {
  if (!result.applied) skipped_bins_.push_back(BinsOf(batch));
  if (!state_.skipped.TooMany()) return std::nullopt;
  const absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      "too many steps with a non-finite gradient norm (", state_.skipped.in_a_row, " in a row, ",
      state_.skipped.recent.size(),
      " of the last 1000; allowed 3 and 10). Bins by step: ", absl::StrJoin(skipped_bins_, "; "),
      ". Lower train.learning_rate, or look at these documents with cox data preview"));
  return failure::MakeError(status, {.phase = "train"});
}

std::optional<v1::Error> Training::TakeEval(const Sent& sent, const gang::InFlight& command) {
  if (const absl::Status added = AddEval(*sent.batch, command, &eval_sum_); !added.ok()) {
    return failure::MakeError(added, {.phase = command.phase});
  }
  if (sent.first_part) eval_began_ns_ = command.began_ns;
  if (!sent.last_part) return std::nullopt;
  const EvalSum sum = std::exchange(eval_sum_, EvalSum());
  eval_outstanding_ = false;
  const double denominator = static_cast<double>(std::max<int64_t>(sum.denominator, 1));
  checkpoint::EvalPoint point{
      .step = command.step,
      .loss = sum.loss_sum / denominator,
      .seconds = static_cast<double>(command.done_ns - eval_began_ns_) * 1e-9,
      .token_accuracy = TokenAccuracy(sum)};
  std::optional<v1::Preference> preference;
  if (sum.preference) {
    preference = MeansOf(*sum.preference);
    AddTo(*preference, &point);
  }
  state_.seconds += point.seconds;
  state_.evals.push_back(point);
  const bool is_best = state_.early_stop.Add(point, args_.metric);
  events_.on_eval(point, preference, is_best, state_);
  if (!args_.patience.has_value()) return std::nullopt;
  if (is_best && point.step > 0) script_.RequestSnapshot();
  if (state_.early_stop.Exhausted(args_.patience)) script_.EndAt(point.step);
  return std::nullopt;
}

bool Training::EvalTakenInPart() const {
  if (in_flight_.empty()) return next_eval_part_ != 0;
  return in_flight_.front().action == Action::kEval && !in_flight_.front().first_part;
}

// Before references are kept, in the middle of an evaluation or of answers, and once an export is
// being verified, there is none: they are begun again then, from the answers that the ranks have
// kept.
std::optional<gang::ProgramPosition> Training::Position() const {
  if (references_.pending() || TakesKl() || EvalTakenInPart() || asking_.TakenInPart()) {
    return std::nullopt;
  }
  if (proof_.begun()) return std::nullopt;
  const ScriptPlace& place = in_flight_.empty() ? script_.place() : in_flight_.front().before;
  return gang::ProgramPosition{
      .state = PositionJson(state_, place, saving_run_ ? &*saving_run_ : nullptr)};
}

void Training::Drain(bool with_checkpoint) {
  stops_early_ = true;
  if (!with_checkpoint) {
    script_.EndNow();
  } else if (!std::exchange(drains_, true)) {
    script_.EndAt(script_.step());
  }
}

bool Training::complete() const {
  return state_.step >= args_.curriculum->total_steps() ||
         state_.early_stop.Exhausted(args_.patience);
}

const char* Training::Ending() const {
  return state_.step > args_.start.step ? "all steps are done" : "no step was left";
}

}  // namespace coxswain::driver
