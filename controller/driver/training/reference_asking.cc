#include "controller/driver/training/reference_asking.h"

#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "controller/driver/training/log_probs_order.h"

namespace coxswain::driver {
namespace {

void Put(std::vector<double>* sums, int64_t document, double sum) {
  const auto at = static_cast<size_t>(document);
  if (sums->size() <= at) sums->resize(at + 1, std::numeric_limits<double>::quiet_NaN());
  (*sums)[at] = sum;
}

}  // namespace

ReferenceAsking::ReferenceAsking(const Curriculum* curriculum,
                                 const std::vector<std::span<const BinSize>>& eval_parts,
                                 std::shared_ptr<const ReferenceSums> known, Told told)
    : curriculum_(curriculum),
      told_(std::move(told)),
      sums_(std::move(known)),
      kept_(sums_ != nullptr) {
  if (pending()) ListParts(eval_parts);
}

void ReferenceAsking::ListParts(const std::vector<std::span<const BinSize>>& eval_parts) {
  gathered_ = std::make_shared<ReferenceSums>();
  const auto add = [this](int64_t step, const std::vector<BinSize>& bins) {
    parts_.push_back({.step = step, .side = Side::kTrained, .bins = bins});
    if (!curriculum_->has_kl()) return;
    parts_.push_back({.step = step, .side = Side::kMismatched, .bins = bins});
  };
  for (int64_t step = 0; step < curriculum_->total_steps() && curriculum_->pass_of_step(step) == 0;
       ++step) {
    add(step, curriculum_->step_bins(step));
  }
  for (const std::span<const BinSize> bins : eval_parts) add(-1, {bins.begin(), bins.end()});
}

std::optional<gang::Order> ReferenceAsking::Ask(const DealOf& deal) {
  if (next_part_ == parts_.size()) return std::nullopt;
  const Part& part = parts_[next_part_++];
  const std::shared_ptr<const Batch> batch = deal(part.bins);
  in_flight_.push_back({.step = part.step, .side = part.side, .batch = batch});
  return LogProbsOrder(curriculum_, batch, {.step = part.step, .side = part.side});
}

absl::Status ReferenceAsking::Take(const gang::InFlight& command) {
  const Sent sent = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<double>* const sums = sent.step < 0 ? &gathered_->held_out : &gathered_->train;
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    const std::vector<int64_t> documents =
        curriculum_->Documents(sent.step, sent.batch->bins[rank], sent.side);
    RETURN_IF_ERROR(CheckLogProbs(rank, documents.size(), done));
    for (size_t i = 0; i < documents.size(); ++i) {
      Put(sums, documents[i], done.log_probs(static_cast<int>(i)));
    }
  }
  if (next_part_ < parts_.size() || !in_flight_.empty()) return absl::OkStatus();
  sums_ = std::move(gathered_);
  told_(sums_);
  return absl::OkStatus();
}

std::vector<double> ReferenceAsking::SumsOf(int64_t step, std::span<const int64_t> ids,
                                            Side side) const {
  if (sums_ == nullptr) return {};
  const std::vector<double>& all = step < 0 ? sums_->held_out : sums_->train;
  std::vector<double> own;
  for (const int64_t document : curriculum_->Documents(step, ids, side)) {
    own.push_back(all[static_cast<size_t>(document)]);
  }
  return own;
}

}  // namespace coxswain::driver
