#include "worker/engine/verify.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::engine {
namespace {

absl::Status Failure(const Part& part, const char* reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("self-verification: group ", part.name, ": ", reason));
}

}  // namespace

SelfVerification::SelfVerification(const std::vector<Part>& parts, std::vector<PartNumbers> loaded)
    : parts_(parts), loaded_(std::move(loaded)), had_gradient_(parts.size(), false) {
  bool any_b = false, all_zero = true;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].lora_b) continue;
    any_b = true;
    all_zero = all_zero && loaded_[i].all_zero != 0;
  }
  b_is_zero_ = any_b && all_zero;
}

absl::Status SelfVerification::CheckGradients(const std::vector<PartNumbers>& numbers) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool zero = numbers[i].gradient.sum_squares == 0.0;
    if (parts_[i].lora_a && b_is_zero_ && updates_ == 0 && !zero) {
      return Failure(parts_[i], "its gradient must be zero while B is zero, and is not");
    }
    if (!zero) had_gradient_[i] = true;
  }
  if (updates_ == 0) return absl::OkStatus();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!had_gradient_[i]) {
      return Failure(parts_[i],
                     "its gradient was zero in the first two steps; nothing in the "
                     "batch or the model reaches these parameters");
    }
  }
  return absl::OkStatus();
}

absl::Status SelfVerification::CheckUpdate(const std::vector<PartNumbers>& numbers) {
  if (++updates_ < 2) return absl::OkStatus();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (numbers[i].checksum != loaded_[i].checksum) continue;
    return Failure(parts_[i], "its parameters did not move in two applied updates");
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
