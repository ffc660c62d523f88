#include "controller/export/export_rounding.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/element_type.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "controller/export/fp8_tensors.h"
#include "controller/export/list_model_tensors.h"

namespace coxswain::exports {
namespace {

// Half the distance of neighbours, relative to the smaller: 2^-p of a type of p binary digits.
double UnitRoundoff(ElementType dtype) {
  if (dtype == ElementType::kBF16) return std::ldexp(1.0, -8);
  if (dtype == ElementType::kF16) return std::ldexp(1.0, -11);
  return std::ldexp(1.0, -24);
}

bool IsUnrounded(const plan::Plan& plan, const ModelTensor& tensor) {
  if (tensor.parameter == nullptr) return true;  // the engine does not compute with it
  if (tensor.lora_a != nullptr) return false;
  if (tensor.dtype == ElementType::kF32) return true;
  const bool plain = !tensor.packed.has_value() && !tensor.blocks.has_value();
  if (plain && tensor.weights.dtype == tensor.dtype) return true;
  const plan::Storage kept = plan::StorageOf(plan, *tensor.parameter).weights;
  return tensor.dtype == ElementType::kBF16 && kept == plan::Storage::kBfloat16;
}

int64_t LongestSum(const plan::Plan& plan) {
  int64_t longest = 1;
  for (const model::Parameter& parameter : plan.parameters) {
    longest = std::max(longest, parameter.cols);
  }
  return longest;
}

float Rounded(ElementType dtype, float value) {
  if (dtype == ElementType::kBF16) return Bf16ToFloat(FloatToBf16(value));
  if (dtype == ElementType::kF16) return HalfToFloat(FloatToHalf(value));
  return value;
}

absl::StatusOr<double> LostOf(const ModelTensor& tensor, double lora_scale) {
  ASSIGN_OR_RETURN(const std::vector<float> merged, ValuesOf(tensor, lora_scale));
  ModelTensor base = tensor;
  base.lora_a = base.lora_b = base.magnitude = nullptr;
  ASSIGN_OR_RETURN(const std::vector<float> plain, ValuesOf(std::move(base), lora_scale));
  double product = 0, square = 0;
  for (size_t i = 0; i < merged.size(); ++i) {
    const double change = merged[i] - plain[i];
    product += (Rounded(tensor.dtype, merged[i]) - merged[i]) * change;
    square += change * change;
  }
  return square > 0 ? std::max(0.0, -product / square) : 0.0;
}

// Of at most kMostTensors of the merged ones, from the first to the last.
absl::StatusOr<double> Lost(const std::vector<ModelTensor>& tensors, double lora_scale) {
  constexpr size_t kMostTensors = 8;
  std::vector<const ModelTensor*> merged;
  for (const ModelTensor& tensor : tensors) {
    if (tensor.lora_a != nullptr && tensor.dtype != ElementType::kF32) merged.push_back(&tensor);
  }
  double most = 0;
  const size_t some = std::min(kMostTensors, merged.size());
  for (size_t i = 0; i < some; ++i) {
    ASSIGN_OR_RETURN(const double lost, LostOf(*merged[i * merged.size() / some], lora_scale));
    most = std::max(most, lost);
  }
  return most;
}

absl::Status OfMerge(const plan::Plan& plan, const std::vector<ModelTensor>& tensors,
                     StagedFolder* folder) {
  double of_files = 0;
  for (const ModelTensor& tensor : tensors) {
    if (!IsUnrounded(plan, tensor)) of_files = std::max(of_files, UnitRoundoff(tensor.dtype));
  }
  const double of_compute = UnitRoundoff(
      plan.compute_dtype == Precision::kBfloat16 ? ElementType::kBF16 : ElementType::kF32);
  const double of_sums = std::sqrt(static_cast<double>(LongestSum(plan))) * std::ldexp(1.0, -24);
  folder->rounding = of_files + of_compute + of_sums;
  ASSIGN_OR_RETURN(folder->lost, Lost(tensors, plan.lora.scale));
  folder->base_dir = plan.model_path;
  folder->verification.bound_from =
      absl::StrCat("from what a change of every weight by a factor of 1 +- ", folder->rounding,
                   " does to the trained state, and from the part ", folder->lost,
                   " of the adapter that rounding takes back");
  return absl::OkStatus();
}

}  // namespace

absl::Status FindRounding(const config::JobSpec& job, const plan::Plan& plan,
                          const CheckpointTensors& checkpoint, StagedFolder* folder) {
  if (plan.quantization != Quantization::kNone) {
    folder->verification.reason =
        absl::StrCat("the job keeps its base as ", ToString(plan.quantization),
                     ", and the merged model is not to be quantised");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ModelSource from, OpenModelSource(plan));
  ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                   ListModelTensors(job, plan, from, checkpoint));
  if (std::any_of(tensors.begin(), tensors.end(), IsInFp8)) {
    folder->verification.reason = "weights in FP8 are rounded";
    return absl::OkStatus();
  }
  if (plan.lora.rank > 0) return OfMerge(plan, tensors, folder);
  folder->rounded = std::any_of(tensors.begin(), tensors.end(),
                                [&plan](const auto& tensor) { return !IsUnrounded(plan, tensor); });
  folder->verification.bound_from = folder->rounded ? kRoundedBits : kSameBits;
  return absl::OkStatus();
}

}  // namespace coxswain::exports
