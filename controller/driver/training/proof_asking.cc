#include "controller/driver/training/proof_asking.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::driver {

void ProofAsking::Begin(ProofQuestions questions) {
  questions_ = std::move(questions);
  begun_ = true;
}

void ProofAsking::Cut() { cut_ = true; }

std::optional<gang::Order> ProofAsking::Ask(int64_t step, const DealOf& deal) {
  if (!std::exchange(wanted_, true)) events_.wanted();
  if (!begun_ || ended_) return std::nullopt;
  if (AllAsked()) {
    if (in_flight_.empty() && !std::exchange(told_, true)) events_.answered(answers_);
    return std::nullopt;
  }
  // Whether files can be read is known before they are computed with.
  if (!in_flight_.empty() && in_flight_.back().batch == nullptr) return std::nullopt;
  if (questions_.weights[next_weights_] && !std::exchange(loaded_, true)) return LoadOrder(step);
  return RecordOrder(step, deal);
}

gang::Order ProofAsking::LoadOrder(int64_t step) {
  gang::Order order{.turn = gang::Turn::kBetween, .phase = "load", .step = step};
  *order.command.mutable_load() = *questions_.weights[next_weights_];
  in_flight_.push_back({});
  return order;
}

// One record a command, so that its loss is known, whatever rank has it.
gang::Order ProofAsking::RecordOrder(int64_t step, const DealOf& deal) {
  const std::vector<BinSize> bins = curriculum_->proof_bins();
  const BinSize& bin = bins[static_cast<size_t>(next_record_)];
  const std::shared_ptr<const Batch> batch = deal(std::span(&bin, 1));
  gang::Order order{.turn = gang::Turn::kBetween, .phase = "verify", .step = step};
  const bool by_log_probs = curriculum_->proof_by_log_probs();
  if (by_log_probs) {
    order.command.mutable_log_probs()->mutable_bins()->set_micro_steps(batch->micro_steps);
  } else {
    v1::Eval& eval = *order.command.mutable_eval();
    eval.set_step(step);
    eval.mutable_bins()->set_micro_steps(batch->micro_steps);
    if (curriculum_->document_loss()) {
      *eval.mutable_documents() = DocumentScalarsOf(bin.units, bin.nll_rows);
    }
  }
  order.fill = [curriculum = curriculum_, batch, by_log_probs](int rank, v1::Command* own) {
    v1::Bins* const bins = by_log_probs ? own->mutable_log_probs()->mutable_bins()
                                        : own->mutable_eval()->mutable_bins();
    for (const int64_t id : batch->bins[rank]) curriculum->FillProof(id, bins);
  };
  in_flight_.push_back({batch});
  if (++next_record_ == questions_.records) {
    next_record_ = 0;
    loaded_ = false;
    ++next_weights_;
  }
  return order;
}

absl::Status ProofAsking::Take(const gang::InFlight& command) {
  const Sent sent = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (sent.batch != nullptr) return TakeRecord(*sent.batch, command);
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const std::string& refused = command.results[rank]->refused();
    if (refused.empty() || cut_) continue;
    answers_.refused = absl::StrCat("rank ", rank, ": ", refused);
    cut_ = true;
  }
  return absl::OkStatus();
}

absl::Status ProofAsking::TakeRecord(const Batch& batch, const gang::InFlight& command) {
  double loss = 0;
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    if (done.bin_ids_size() != static_cast<int>(batch.bins[rank].size())) {
      return absl::InternalError(absl::StrCat("verify: rank ", rank, " was sent ",
                                              batch.bins[rank].size(), " records and tells of ",
                                              done.bin_ids_size()));
    }
    loss += done.loss_sum();
    for (const double log_prob : done.log_probs()) loss -= log_prob;
  }
  const auto full = [this](const std::vector<double>& losses) {
    return static_cast<int64_t>(losses.size()) == questions_.records;
  };
  if (answers_.losses.empty() || full(answers_.losses.back())) answers_.losses.emplace_back();
  answers_.losses.back().push_back(loss);
  return absl::OkStatus();
}

}  // namespace coxswain::driver
