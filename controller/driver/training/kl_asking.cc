#include "controller/driver/training/kl_asking.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "controller/driver/training/log_probs_order.h"

namespace coxswain::driver {

std::optional<gang::Order> KlAsking::Ask(int64_t step,
                                         std::span<const std::span<const BinSize>> parts,
                                         const ReferenceAsking::DealOf& deal) {
  if (asked_ == 0) {
    step_ = step;
    commands_ = parts.size() * CommandsPerPart();
    difference_ = 0;
    documents_ = 0;
  }
  if (asked_ == commands_) return std::nullopt;
  const bool of_reference = asked_ % CommandsPerPart() == 1;
  if (!of_reference) dealt_ = deal(parts[asked_ / CommandsPerPart()]);
  ++asked_;
  in_flight_.push_back({.of_reference = of_reference, .batch = dealt_});
  return LogProbsOrder(curriculum_, dealt_,
                       {.step = step, .side = Side::kMismatched, .without_adapters = of_reference});
}

void KlAsking::Add(double sign, std::span<const double> sums) {
  for (const double sum : sums) difference_ += sign * sum;
}

absl::Status KlAsking::Take(const gang::InFlight& command) {
  const Sent sent = std::move(in_flight_.front());
  in_flight_.pop_front();
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    const std::span<const int64_t> bins = sent.batch->bins[rank];
    const size_t documents = curriculum_->Documents(step_, bins, Side::kMismatched).size();
    RETURN_IF_ERROR(CheckLogProbs(rank, documents, done));
    Add(sent.of_reference ? -1 : 1,
        {done.log_probs().data(), static_cast<size_t>(done.log_probs_size())});
    if (sent.of_reference) continue;
    documents_ += static_cast<int64_t>(documents);
    Add(-1, references_->SumsOf(step_, bins, Side::kMismatched));
  }
  if (asked_ < commands_ || !in_flight_.empty()) return absl::OkStatus();
  kl_ = std::max(0.0, difference_ / static_cast<double>(std::max<int64_t>(documents_, 1)));
  known_ = step_;
  asked_ = 0;
  return absl::OkStatus();
}

}  // namespace coxswain::driver
