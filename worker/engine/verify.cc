#include "worker/engine/verify.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"

namespace coxswain::engine {
namespace {

std::vector<float> ToHost(const float* device, int64_t elements) {
  std::vector<float> host(static_cast<size_t>(elements));
  kernels::CopyMemory(host.data(), device, elements * 4, nullptr);
  return host;
}

absl::Status Failure(const Part& part, const char* reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("self-verification: group ", part.name, ": ", reason));
}

}  // namespace

SelfVerification::SelfVerification(const plan::Plan& plan, const ParameterLayout& layout,
                                   const std::vector<Part>& parts, const float* weights)
    : plan_(plan), layout_(layout), parts_(parts), had_gradient_(parts.size(), false) {
  bool any_b = false, all_zero = true;
  for (const Part& part : parts_) {
    loaded_.push_back(Digest(part, weights));
    if (!part.lora_b) continue;
    any_b = true;
    for (size_t i : part.parameters) {
      const std::vector<float> b =
          ToHost(weights + layout_.weight_offset[i], plan_.parameters[i].elements());
      all_zero = all_zero && std::all_of(b.begin(), b.end(), [](float x) { return x == 0.0f; });
    }
  }
  b_is_zero_ = any_b && all_zero;
}

uint64_t SelfVerification::Digest(const Part& part, const float* weights) const {
  uint64_t digest = 0;
  for (size_t i : part.parameters) {
    const std::vector<float> values =
        ToHost(weights + layout_.weight_offset[i], plan_.parameters[i].elements());
    digest = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(float), digest);
  }
  return digest;
}

absl::Status SelfVerification::CheckGradients(const std::vector<double>& sum_squares) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool zero = sum_squares[i] == 0.0;
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

absl::Status SelfVerification::CheckUpdate(const float* weights) {
  if (++updates_ < 2) return absl::OkStatus();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (Digest(parts_[i], weights) != loaded_[i]) continue;
    return Failure(parts_[i], "its parameters did not move in two applied updates");
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
