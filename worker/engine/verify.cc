#include "worker/engine/verify.h"

#include "absl/strings/str_cat.h"

namespace coxswain::engine {
namespace {

absl::Status Failure(const Part& part, const char* reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("self-verification: group ", part.name, ": ", reason));
}

}  // namespace

PartSums PartOfRank(const PartNumbers& loaded, const PartNumbers& now) {
  return {.gradient_squares = now.gradient.sum_squares,
          .moved = now.checksum != loaded.checksum ? 1.0 : 0.0,
          .loaded_nonzero = loaded.all_zero == 0 ? 1.0 : 0.0};
}

SelfVerification::SelfVerification(const std::vector<Part>& parts)
    : parts_(parts), had_gradient_(parts.size(), false) {}

absl::Status SelfVerification::CheckGradients(const std::vector<PartSums>& sums) {
  bool b_is_zero = false;  // some B exists and all were zero
  for (size_t i = 0; i < parts_.size(); ++i) b_is_zero = b_is_zero || parts_[i].lora_b;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].lora_b && sums[i].loaded_nonzero > 0) b_is_zero = false;
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool zero = sums[i].gradient_squares == 0.0;
    if (parts_[i].lora_a && b_is_zero && updates_ == 0 && !zero) {
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

absl::Status SelfVerification::CheckUpdate(const std::vector<PartSums>& sums) {
  if (++updates_ < 2) return absl::OkStatus();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (sums[i].moved > 0) continue;
    return Failure(parts_[i], "its parameters did not move in two applied updates");
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
