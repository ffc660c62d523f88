#include "worker/engine/verify.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/storage.h"

namespace coxswain::engine {
namespace {

// An update of so many ulps moves an element of float32, also one a few times as large as most, or
// one whose moments have met gradients of both signs.
constexpr double kUlps = 8;
// When so many elements should have moved, that none has is no chance, though most updates are a
// tenth to a half of what is counted here: e^-25.
constexpr double kMovedElements = 256;

absl::Status Failure(const VerifiedGroup& group, const std::string& reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("self-verification: group ", group.name, ": ", reason));
}

}  // namespace

GroupSums SumsOfRank(const GroupStatistics& loaded, const GroupStatistics& now) {
  return {.gradient_squares = now.norm.sum_squares,
          .value_squares = loaded.norm.sum_squares,
          .moved = now.checksum != loaded.checksum ? 1.0 : 0.0,
          .loaded_nonzero = loaded.all_zero == 0 ? 1.0 : 0.0};
}

SelfVerification::SelfVerification(const plan::Plan& plan, const std::vector<VerifiedGroup>& groups)
    : groups_(groups), eps_(plan.eps), movements_(groups.size()) {
  for (size_t g = 0; g < groups.size(); ++g) {
    Movement& movement = movements_[g];
    movement.lr_scale = plan.groups[static_cast<size_t>(groups[g].plan_group)].lr_scale;
    for (const size_t i : groups[g].parameters) {
      const model::Parameter& parameter = plan.parameters[i];
      const auto elements = static_cast<double>(parameter.elements());
      const bool lookup = parameter.role == model::Role::kEmbedding && !plan.model.tie_embeddings;
      movement.elements += lookup ? static_cast<double>(parameter.cols) : elements;
      movement.all_elements += plan.replicate * elements;
      const plan::Storage storage = plan::StorageOf(plan, parameter).trained_values();
      movement.rounded = movement.rounded || storage == plan::Storage::kBfloat16;
    }
  }
}

bool SelfVerification::finished() const {
  return looked_at_ >= 2 && std::all_of(movements_.begin(), movements_.end(),
                                        [](const Movement& movement) { return movement.moved; });
}

bool SelfVerification::LooksAt(double learning_rate) const {
  if (looked_at_ < 2) return true;
  return std::any_of(movements_.begin(), movements_.end(), [&](const Movement& movement) {
    return !movement.moved && IsDue(movement, learning_rate);
  });
}

void SelfVerification::TakeScales(const GroupSums& sums, double clip_factor,
                                  Movement* movement) const {
  const double value = std::sqrt(sums.value_squares / movement->all_elements);
  // Of the value's binade; zeros move by any update.
  movement->ulp = value > 0 ? std::ldexp(1.0, std::ilogb(value) - (movement->rounded ? 7 : 23)) : 0;
  const double gradient = clip_factor * std::sqrt(sums.gradient_squares / movement->all_elements);
  movement->per_rate = movement->lr_scale * gradient / (gradient + eps_);
}

double SelfVerification::Moves(const Movement& movement, double learning_rate) {
  const double update = learning_rate * movement.per_rate;
  if (update == 0) return 0;
  return movement.ulp > update ? movement.elements * update / movement.ulp : movement.elements;
}

bool SelfVerification::IsDue(const Movement& movement, double learning_rate) {
  const double update = learning_rate * movement.per_rate;
  if (update > 0 && update >= kUlps * movement.ulp) return true;
  return movement.rounded && movement.expected + Moves(movement, learning_rate) >= kMovedElements;
}

absl::Status SelfVerification::CheckGradients(const std::vector<GroupSums>& sums) {
  bool b_is_zero = false;  // some B exists and all were zero
  for (size_t i = 0; i < groups_.size(); ++i) b_is_zero = b_is_zero || groups_[i].lora_b;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].lora_b && sums[i].loaded_nonzero > 0) b_is_zero = false;
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const bool zero = sums[i].gradient_squares == 0.0;
    if (groups_[i].lora_a && b_is_zero && looked_at_ == 0 && !zero) {
      return Failure(groups_[i], "its gradient must be zero while B is zero, and is not");
    }
    if (!zero) movements_[i].had_gradient = true;
  }
  if (looked_at_ == 0) return absl::OkStatus();
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!movements_[i].had_gradient) {
      return Failure(groups_[i],
                     "its gradient was zero in the first two steps; nothing in the "
                     "batch or the model reaches these parameters");
    }
  }
  return absl::OkStatus();
}

absl::Status SelfVerification::CheckUpdate(const std::vector<GroupSums>& sums, double learning_rate,
                                           double clip_factor) {
  ++looked_at_;
  ++updates_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Movement& movement = movements_[g];
    TakeScales(sums[g], clip_factor, &movement);
    movement.moved = movement.moved || sums[g].moved > 0;
    if (looked_at_ >= 2 && !movement.moved && IsDue(movement, learning_rate)) {
      return Failure(groups_[g], absl::StrCat("its parameters did not move in ", updates_,
                                              " applied updates, the last at a learning rate of ",
                                              learning_rate * movement.lr_scale));
    }
    movement.expected += Moves(movement, learning_rate);
  }
  return absl::OkStatus();
}

void SelfVerification::CountUpdate(double learning_rate) {
  ++updates_;
  for (Movement& movement : movements_) movement.expected += Moves(movement, learning_rate);
}

}  // namespace coxswain::engine
