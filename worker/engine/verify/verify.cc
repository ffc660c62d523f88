#include "worker/engine/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"

namespace coxswain::engine {
namespace {

// An update of so many ulps moves an element of float32, also one a few times as large as most, or
// one whose moments have met gradients of both signs.
constexpr double kUlps = 8;
// When so many elements should have moved, that none has is no chance, though most updates are a
// tenth to a half of what is counted here: e^-25.
constexpr double kMovedElements = 256;
// More tensors than these are told by their number.
constexpr size_t kNamed = 16;

absl::Status Failure(const std::vector<VerifiedTensor>& verified, const std::vector<size_t>& failed,
                     const std::string& what) {
  if (failed.empty()) return absl::OkStatus();
  std::string names;
  for (size_t i = 0; i < std::min(failed.size(), kNamed); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", verified[failed[i]].name);
  }
  if (failed.size() > kNamed) absl::StrAppend(&names, " and ", failed.size() - kNamed, " more");
  return absl::FailedPreconditionError(absl::StrCat("self-verification: ", failed.size(),
                                                    failed.size() == 1 ? " tensor " : " tensors ",
                                                    what, ": ", names));
}

bool IsLookup(const plan::Plan& plan, const model::Parameter& parameter) {
  if (model::AdaptsEmbedding(parameter) && model::IsLoraA(parameter)) return true;
  return model::IsEmbedding(parameter) && !plan.model.tie_embeddings;
}

}  // namespace

SelfVerification::SelfVerification(const plan::Plan& plan,
                                   const std::vector<VerifiedTensor>& tensors)
    : plan_(plan), verified_(tensors), tensors_(tensors.size()) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    const model::Parameter& parameter = plan.parameters[tensors[t].parameter];
    Tensor& tensor = tensors_[t];
    tensor.lr_scale = plan.groups[static_cast<size_t>(parameter.group)].lr_scale;
    const auto elements = static_cast<double>(parameter.elements());
    tensor.elements = IsLookup(plan, parameter) ? static_cast<double>(parameter.cols) : elements;
    tensor.all_elements = plan.replicate * elements;
    const plan::Storage storage = plan::StorageOf(plan, parameter).trained_values();
    tensor.rounded = storage == plan::Storage::kBfloat16;
  }
}

bool SelfVerification::finished() const {
  if (looked_at_ < 2) return false;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!tensors_[t].moved || AwaitsGradient(t)) return false;
  }
  return true;
}

bool SelfVerification::LooksAt(double learning_rate) const {
  if (looked_at_ < 2) return true;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (AwaitsGradient(t)) return true;
    if (!tensors_[t].moved && IsDue(tensors_[t], learning_rate)) return true;
  }
  return false;
}

void SelfVerification::TakeScales(const TensorSums& sums, double clip_factor,
                                  Tensor* tensor) const {
  const double value = std::sqrt(sums.value_squares / tensor->all_elements);
  // Of the value's binade; zeros move by any update.
  tensor->ulp = value > 0 ? std::ldexp(1.0, std::ilogb(value) - (tensor->rounded ? 7 : 23)) : 0;
  const double gradient = clip_factor * std::sqrt(sums.gradient_squares / tensor->all_elements);
  tensor->per_rate = tensor->lr_scale * plan::OptimizerOf(plan_).scale(gradient, plan_);
}

double SelfVerification::Moves(const Tensor& tensor, double learning_rate) {
  const double update = learning_rate * tensor.per_rate;
  if (update == 0) return 0;
  return tensor.ulp > update ? tensor.elements * update / tensor.ulp : tensor.elements;
}

bool SelfVerification::IsDue(const Tensor& tensor, double learning_rate) {
  const double update = learning_rate * tensor.per_rate;
  if (update > 0 && update >= kUlps * tensor.ulp) return true;
  return tensor.rounded && tensor.expected + Moves(tensor, learning_rate) >= kMovedElements;
}

absl::Status SelfVerification::CheckZeroFactors(const StepSums& sums) const {
  std::vector<size_t> failed;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (FactorIsZero(t) && sums.tensors[t].gradient_squares != 0.0) failed.push_back(t);
  }
  return Failure(verified_, failed,
                 "with a gradient that is not zero while the other factor of the adapter is");
}

absl::Status SelfVerification::CheckGradients(const StepSums& sums) {
  std::vector<size_t> failed;
  if (looked_at_ == 0) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      tensors_[t].zero = sums.tensors[t].loaded_nonzero == 0;
    }
    absl::Status status = CheckZeroFactors(sums);
    if (!status.ok()) return status;
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    if (sums.tensors[t].gradient_squares != 0.0) tensor.had_gradient = true;
    if (verified_[t].needs_attention && sums.attending_targets == 0) continue;
    ++tensor.reached;
    if (tensor.reached >= 2 && AwaitsGradient(t) && !FactorIsZero(t)) failed.push_back(t);
  }
  return Failure(verified_, failed,
                 absl::StrCat("had a gradient of zero in all of the first ", looked_at_ + 1,
                              " updates; nothing in the batches or the model reaches them"));
}

std::vector<size_t> SelfVerification::Unmoved(const StepSums& sums,
                                              const AppliedUpdate& update) const {
  std::vector<size_t> unmoved;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Tensor tensor = tensors_[t];
    TakeScales(sums.tensors[t], update.clip_factor, &tensor);
    if (tensor.moved || sums.tensors[t].moved > 0) continue;
    if (IsDue(tensor, update.learning_rate)) unmoved.push_back(t);
  }
  return unmoved;
}

absl::Status SelfVerification::CheckUpdate(const StepSums& sums, const AppliedUpdate& update) {
  ++looked_at_;
  ++updates_;
  std::vector<size_t> failed;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    TakeScales(sums.tensors[t], update.clip_factor, &tensor);
    tensor.moved = tensor.moved || sums.tensors[t].moved > 0;
    tensor.zero = tensor.zero && !tensor.moved;
    if (looked_at_ >= 2 && !tensor.moved && IsDue(tensor, update.learning_rate)) {
      failed.push_back(t);
    }
    tensor.expected += Moves(tensor, update.learning_rate);
  }
  return Failure(
      verified_, failed,
      absl::StrCat("did not move in ", updates_,
                   " applied updates, the last at a learning rate of ", update.learning_rate));
}

void SelfVerification::CountUpdate(double learning_rate) {
  ++updates_;
  for (Tensor& tensor : tensors_) tensor.expected += Moves(tensor, learning_rate);
}

}  // namespace coxswain::engine
