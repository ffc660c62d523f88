#include "worker/engine/verify.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/precision.h"

namespace coxswain::engine {
namespace {

// An update of so many ulps moves an element of float32, also one a few times as large as most, or
// one whose moments have met gradients of both signs.
constexpr double kUlps = 8;
// When so many elements should have moved, that none has is no chance, though most updates are a
// tenth to a half of what is counted here: e^-25.
constexpr double kMovedElements = 256;

absl::Status Failure(const Part& part, const std::string& reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("self-verification: group ", part.name, ": ", reason));
}

}  // namespace

PartSums PartOfRank(const PartNumbers& loaded, const PartNumbers& now) {
  return {.gradient_squares = now.norm.sum_squares,
          .value_squares = loaded.norm.sum_squares,
          .moved = now.checksum != loaded.checksum ? 1.0 : 0.0,
          .loaded_nonzero = loaded.all_zero == 0 ? 1.0 : 0.0};
}

SelfVerification::SelfVerification(const plan::Plan& plan, const std::vector<Part>& parts)
    : parts_(parts), eps_(plan.eps), movements_(parts.size()) {
  for (size_t p = 0; p < parts.size(); ++p) {
    Movement& part = movements_[p];
    part.lr_scale = plan.groups[static_cast<size_t>(parts[p].group)].lr_scale;
    for (const size_t i : parts[p].parameters) {
      const model::Parameter& parameter = plan.parameters[i];
      const auto elements = static_cast<double>(parameter.elements());
      const bool lookup = parameter.role == model::Role::kEmbedding && !plan.model.tie_embeddings;
      part.elements += lookup ? static_cast<double>(parameter.cols) : elements;
      part.all_elements += plan.replicate * elements;
      const bool rounded = plan.compute_dtype == "bfloat16" && !plan::HasMaster(plan, parameter);
      part.rounded = part.rounded || rounded;
    }
  }
}

bool SelfVerification::finished() const {
  return looked_at_ >= 2 && std::all_of(movements_.begin(), movements_.end(),
                                        [](const Movement& part) { return part.moved; });
}

bool SelfVerification::LooksAt(double learning_rate) const {
  if (looked_at_ < 2) return true;
  return std::any_of(movements_.begin(), movements_.end(), [&](const Movement& part) {
    return !part.moved && IsDue(part, learning_rate);
  });
}

void SelfVerification::TakeScales(const PartSums& sums, double clip_factor, Movement* part) const {
  const double value = std::sqrt(sums.value_squares / part->all_elements);
  // Of the value's binade; zeros move by any update.
  part->ulp = value > 0 ? std::ldexp(1.0, std::ilogb(value) - (part->rounded ? 7 : 23)) : 0;
  const double gradient = clip_factor * std::sqrt(sums.gradient_squares / part->all_elements);
  part->per_rate = part->lr_scale * gradient / (gradient + eps_);
}

double SelfVerification::Moves(const Movement& part, double learning_rate) {
  const double update = learning_rate * part.per_rate;
  if (update == 0) return 0;
  return part.ulp > update ? part.elements * update / part.ulp : part.elements;
}

bool SelfVerification::IsDue(const Movement& part, double learning_rate) {
  const double update = learning_rate * part.per_rate;
  if (update > 0 && update >= kUlps * part.ulp) return true;
  return part.rounded && part.expected + Moves(part, learning_rate) >= kMovedElements;
}

absl::Status SelfVerification::CheckGradients(const std::vector<PartSums>& sums) {
  bool b_is_zero = false;  // some B exists and all were zero
  for (size_t i = 0; i < parts_.size(); ++i) b_is_zero = b_is_zero || parts_[i].lora_b;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].lora_b && sums[i].loaded_nonzero > 0) b_is_zero = false;
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool zero = sums[i].gradient_squares == 0.0;
    if (parts_[i].lora_a && b_is_zero && looked_at_ == 0 && !zero) {
      return Failure(parts_[i], "its gradient must be zero while B is zero, and is not");
    }
    if (!zero) movements_[i].had_gradient = true;
  }
  if (looked_at_ == 0) return absl::OkStatus();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!movements_[i].had_gradient) {
      return Failure(parts_[i],
                     "its gradient was zero in the first two steps; nothing in the "
                     "batch or the model reaches these parameters");
    }
  }
  return absl::OkStatus();
}

absl::Status SelfVerification::CheckUpdate(const std::vector<PartSums>& sums, double learning_rate,
                                           double clip_factor) {
  ++looked_at_;
  ++updates_;
  for (size_t p = 0; p < parts_.size(); ++p) {
    Movement& part = movements_[p];
    TakeScales(sums[p], clip_factor, &part);
    part.moved = part.moved || sums[p].moved > 0;
    if (looked_at_ >= 2 && !part.moved && IsDue(part, learning_rate)) {
      return Failure(parts_[p], absl::StrCat("its parameters did not move in ", updates_,
                                             " applied updates, the last at a learning rate of ",
                                             learning_rate * part.lr_scale));
    }
    part.expected += Moves(part, learning_rate);
  }
  return absl::OkStatus();
}

void SelfVerification::CountUpdate(double learning_rate) {
  ++updates_;
  for (Movement& part : movements_) part.expected += Moves(part, learning_rate);
}

}  // namespace coxswain::engine
