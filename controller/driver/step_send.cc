// StepRun: what goes out to the ranks.
#include <algorithm>
#include <utility>

#include "controller/driver/step_run.h"

#include "common/fault_point.h"

namespace coxswain::driver {
namespace {

// Above this many bytes of tokens and mask a rank that maps the token stores gets document ids.
constexpr int64_t kMostInlineBytes = 64 << 10;

// Tokens of a piece of an answer: few enough that one command stays short, and that a reader sees
// an answer grow.
constexpr int64_t kPieceTokens = 8;

}  // namespace

bool StepRun::MaySend(Action action) const {
  if (ended_ || !errors_.empty() || window_.full()) return false;
  if (eval_outstanding_ && args_.patience.has_value() && next_eval_part_ == 0) return false;
  if (action == Action::kSnapshot) return !saving_;
  return true;
}

void StepRun::Pump() {
  while (MaySend(script_.next())) {
    if (LeaveOutQuestions()) continue;
    const Action action = script_.next();
    if (action == Action::kEnd) {
      if (window_.empty() && !saving_) End();
      return;
    }
    Send(action);
  }
}

void StepRun::Send(Action action) {
  InFlight& command = window_.Push(action, script_.step());
  command.sent_ns = deps_.loop->clock().NowNs();
  command.stalled_ns = deps_.loop->stalled_ns();
  if (window_.size() == 1) last_progress_ns_ = command.sent_ns;
  switch (action) {
    case Action::kTrain:
      SendTrain(command);
      break;
    case Action::kEval:
      SendEvalPart(command);
      if (!command.last_part) return;
      break;
    case Action::kGenerate:
      SendQuestions(command);
      if (!command.last_part) return;
      break;
    case Action::kSnapshot:
      SendSnapshot(command);
      break;
    case Action::kEnd:
      break;
  }
  Advance();
  if (action == Action::kSnapshot) SetSaving(true);
}

void StepRun::Advance() {
  const bool owed = script_.owes_snapshot();
  const int64_t step = script_.step();
  script_.Advance();
  if (!owed && script_.owes_snapshot()) events_.on_snapshot_delayed(step);
}

void StepRun::SetSaving(bool saving) {
  saving_ = saving;
  script_.SetSaving(saving);
}

void StepRun::SendTrain(InFlight& command) {
  const Curriculum& curriculum = *args_.curriculum;
  const std::vector<BinSize> bins = curriculum.step_bins(command.step);
  for (const BinSize& bin : bins) {
    command.loss_denominator += bin.targets;
    command.tokens += bin.tokens;
  }
  v1::Command shared;
  shared.mutable_train()->set_step(command.step);
  shared.mutable_train()->set_loss_denominator(command.loss_denominator);
  shared.mutable_train()->set_learning_rate(curriculum.learning_rate(command.step));
  const std::vector<BinForm> forms = Deal(bins, &command);
  shared.mutable_train()->mutable_bins()->set_micro_steps(MicroSteps(command));
  Broadcast(command, std::move(shared), [&](int rank, v1::Command* own) {
    curriculum.FillTrain(command.step, command.bins[rank], forms[rank],
                         own->mutable_train()->mutable_bins());
  });
  fault::Pass(fault::Point::kTrainSent, {.step = command.step});
}

void StepRun::SendEvalPart(InFlight& command) {
  const std::span<const BinSize> bins = eval_parts_[next_eval_part_];
  for (const BinSize& bin : bins) command.tokens += bin.tokens;
  v1::Command shared;
  shared.mutable_eval()->set_step(command.step);
  const std::vector<BinForm> forms = Deal(bins, &command);
  shared.mutable_eval()->mutable_bins()->set_micro_steps(MicroSteps(command));
  eval_outstanding_ = true;
  command.first_part = next_eval_part_ == 0;
  command.last_part = ++next_eval_part_ == eval_parts_.size();
  if (command.last_part) next_eval_part_ = 0;
  Broadcast(command, std::move(shared), [&](int rank, v1::Command* own) {
    args_.curriculum->FillEval(command.bins[rank], forms[rank],
                               own->mutable_eval()->mutable_bins());
  });
}

void StepRun::SendQuestions(InFlight& command) {
  const Questions& questions = args_.curriculum->questions();
  v1::Command shared;
  v1::Generate& generate = *shared.mutable_generate();
  generate.set_step(command.step);
  command.first_part = asked_tokens_ == 0;
  if (command.first_part) {
    for (const std::vector<int32_t>& ids : questions.ids) {
      generate.add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
    }
    generate.mutable_ends()->Add(questions.ends.begin(), questions.ends.end());
    *generate.mutable_sampling() = questions.sampling;
  }
  const int64_t tokens = std::min(kPieceTokens, questions.most_tokens - asked_tokens_);
  generate.set_tokens(static_cast<int32_t>(tokens));
  asked_tokens_ += tokens;
  command.last_part = asked_tokens_ == questions.most_tokens;
  if (command.last_part) asked_tokens_ = 0;
  Broadcast(command, std::move(shared), [](int, v1::Command*) {});
}

bool StepRun::LeaveOutQuestions() {
  if (asked_tokens_ == 0 || answered_step_ != script_.step()) return false;
  asked_tokens_ = 0;
  script_.Advance();
  return true;
}

// Fills in the bins of each rank and returns how they travel to it.
std::vector<BinForm> StepRun::Deal(std::span<const BinSize> bins, InFlight* command) const {
  const std::vector<std::vector<int64_t>> hands = DealBins(bins, gang_->world_size(), gang_->work);
  std::vector<BinForm> forms(hands.size(), BinForm::kTokens);
  for (size_t rank = 0; rank < hands.size(); ++rank) {
    int64_t tokens = 0;
    command->bins[rank].reserve(hands[rank].size());
    for (const int64_t place : hands[rank]) {
      command->bins[rank].push_back(bins[place].id);
      tokens += bins[place].tokens;
    }
    // Ids of 4 bytes and a bit of the mask each.
    const bool large = tokens * 4 + tokens / 8 > kMostInlineBytes;
    if (large && gang_->ranks[rank].maps_tokens) forms[rank] = BinForm::kDocumentIds;
  }
  return forms;
}

int64_t StepRun::MicroSteps(const InFlight& command) const {
  size_t most = 0;
  for (const auto& bins : command.bins) most = std::max(most, bins.size());
  return (static_cast<int64_t>(most) + gang_->micro_batch_bins - 1) / gang_->micro_batch_bins;
}

void StepRun::SendSnapshot(InFlight& command) {
  v1::Command shared;
  shared.mutable_snapshot()->set_step(command.step);
  Broadcast(command, std::move(shared), [](int, v1::Command*) {});
  fault::Pass(fault::Point::kSnapshotSent, {.step = command.step});
}

// `fill` adds what only that rank gets; it is called on several threads at once.
void StepRun::Broadcast(InFlight& command, v1::Command shared,
                        const std::function<void(int rank, v1::Command* own)>& fill) {
  *shared.mutable_fence() = gang_->SharedFence();
  shared.set_seq(command.seq);
  const SharedCommand head(std::move(shared));
  written_ = true;
  deps_.fan_out->ForAll(gang_->world_size(), [&](int begin, int end) {
    for (int rank = begin; rank < end; ++rank) {
      v1::Command own;
      own.mutable_fence()->set_worker_incarnation(gang_->ranks[rank].target.incarnation);
      fill(rank, &own);
      streams_[rank]->Write(head, own);
    }
    for (int rank = begin; rank < end; ++rank) streams_[rank]->Flush();
  });
  deps_.metrics->Credits(gang_->job, window_.size());
}

}  // namespace coxswain::driver
