#include "controller/driver/training/commit_step.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::driver {
namespace {

absl::Status CheckBins(const Batch& batch, const gang::InFlight& command) {
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    const auto& sent = batch.bins[rank];
    if (!std::equal(sent.begin(), sent.end(), done.bin_ids().begin(), done.bin_ids().end())) {
      return absl::InternalError(absl::StrCat("step ", batch.step, ": rank ", rank, " was sent ",
                                              sent.size(), " bins and reports ",
                                              done.bin_ids_size(), " others"));
    }
  }
  return absl::OkStatus();
}

absl::Status Disagree(const Batch& batch, const char* what, size_t rank, double first,
                      double other) {
  return absl::InternalError(absl::StrCat(
      "step ", batch.step, ": rank 0 and rank ", rank, " disagree about the ", what, ": ", first,
      " against ", other, " (bits ", absl::Hex(std::bit_cast<uint64_t>(first)), " and ",
      absl::Hex(std::bit_cast<uint64_t>(other)),
      "). Their parameters may have drifted apart: rolling back"));
}

// In rank order, so that the sum has the same bits again.
void AddPreference(const v1::Done& done, std::optional<v1::Preference>* sum) {
  if (!done.has_preference()) return;
  if (!sum->has_value()) sum->emplace();
  const v1::Preference& more = done.preference();
  v1::Preference& all = **sum;
  all.set_rewards_chosen(all.rewards_chosen() + more.rewards_chosen());
  all.set_rewards_rejected(all.rewards_rejected() + more.rewards_rejected());
  all.set_accuracies(all.accuracies() + more.accuracies());
  all.set_logps_chosen(all.logps_chosen() + more.logps_chosen());
  all.set_logps_rejected(all.logps_rejected() + more.logps_rejected());
  all.set_chosen(all.chosen() + more.chosen());
  all.set_rejected(all.rejected() + more.rejected());
  all.set_pairs(more.pairs());
  all.set_of(more.of());
}

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

v1::Preference MeansOf(const v1::Preference& sums) {
  const auto mean = [](double sum, int64_t count) {
    return count == 0 ? 0.0 : sum / static_cast<double>(count);
  };
  v1::Preference means = sums;
  means.set_rewards_chosen(mean(sums.rewards_chosen(), sums.chosen()));
  means.set_rewards_rejected(mean(sums.rewards_rejected(), sums.rejected()));
  means.set_accuracies(mean(sums.accuracies(), sums.chosen()));
  means.set_logps_chosen(mean(sums.logps_chosen(), sums.chosen()));
  means.set_logps_rejected(mean(sums.logps_rejected(), sums.rejected()));
  return means;
}

absl::StatusOr<StepResult> CommitStep(const Batch& batch, const gang::InFlight& command) {
  RETURN_IF_ERROR(CheckBins(batch, command));
  const v1::Done& first = *command.results.front();
  int64_t targets = 0;
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    targets += done.targets();
    if (!SameBits(first.grad_norm(), done.grad_norm())) {
      return Disagree(batch, "grad norm", rank, first.grad_norm(), done.grad_norm());
    }
    if (!SameBits(first.global_loss_sum(), done.global_loss_sum())) {
      return Disagree(batch, "global loss", rank, first.global_loss_sum(), done.global_loss_sum());
    }
    if (first.applied() != done.applied()) {
      return Disagree(batch, "applied update", rank, first.applied(), done.applied());
    }
  }
  if (targets != batch.targets) {
    return absl::InternalError(absl::StrCat("step ", batch.step, ": ranks trained ", targets,
                                            " targets, the global batch has ", batch.targets));
  }
  StepResult result;
  result.step = batch.step;
  result.loss = first.global_loss_sum() / static_cast<double>(batch.denominator);
  std::optional<v1::Preference> sums;
  for (const auto& done : command.results) AddPreference(*done, &sums);
  if (sums) result.preference = MeansOf(*sums);
  result.grad_norm = first.grad_norm();
  result.tokens = batch.tokens;
  result.applied = first.applied();
  if (first.has_experts()) result.experts = first.experts();
  result.loss_bits = std::bit_cast<uint64_t>(result.loss);
  result.gnorm_bits = std::bit_cast<uint64_t>(result.grad_norm);
  return result;
}

absl::Status AddEval(const Batch& batch, const gang::InFlight& command, EvalSum* sum) {
  RETURN_IF_ERROR(CheckBins(batch, command));
  sum->denominator += batch.denominator;
  for (const auto& done : command.results) {
    AddPreference(*done, &sum->preference);
    sum->loss_sum += done->loss_sum();
    sum->targets += done->targets();
    sum->correct_targets += done->correct_targets();
  }
  return absl::OkStatus();
}

}  // namespace coxswain::driver
