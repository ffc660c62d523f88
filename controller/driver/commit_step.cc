#include "controller/driver/commit_step.h"

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

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

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
  result.loss = first.global_loss_sum() / static_cast<double>(batch.targets);
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
  for (const auto& done : command.results) {
    sum->loss_sum += done->loss_sum();
    sum->targets += done->targets();
    sum->correct_targets += done->correct_targets();
  }
  return absl::OkStatus();
}

}  // namespace coxswain::driver
