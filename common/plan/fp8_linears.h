// Linears of blocks whose products are in FP8, and the formats of their operands
// (kernels/quantize/fp8.h).
#ifndef COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_
#define COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/plan/plan.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {

// How the operands of a recipe share scales, and the formats of values and of gradients.
struct Fp8Formats {
  kernels::Fp8Scaling rows{};  // of activations and of gradients
  kernels::Fp8Scaling weights{};
  kernels::Fp8Format gradient{};  // of outputs; all else is E4M3
};
inline Fp8Formats FormatsOf(const Fp8& fp8) {
  const kernels::Fp8Format gradient =
      fp8.e4m3_gradients ? kernels::Fp8Format::kE4M3 : kernels::Fp8Format::kE5M2;
  switch (fp8.recipe) {
    case Fp8Recipe::kRowwise:
      return {kernels::Fp8Scaling::kRow, kernels::Fp8Scaling::kRow, gradient};
    case Fp8Recipe::kBlockwise:
      return {kernels::Fp8Scaling::kTile, kernels::Fp8Scaling::kBlock, gradient};
    default:
      return {kernels::Fp8Scaling::kTensor, kernels::Fp8Scaling::kTensor, gradient};
  }
}

// "tensorwise" and so on; "none".
inline const char* NameOf(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::kTensorwise:
      return "tensorwise";
    case Fp8Recipe::kRowwise:
      return "rowwise";
    case Fp8Recipe::kBlockwise:
      return "blockwise";
    case Fp8Recipe::kDelayed:
      return "delayed";
    default:
      return "none";
  }
}

// Whether a weight has one scale, so that ranks that hold parts of it can quantise these apart.
inline bool ScalesWholeWeights(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::kTensorwise || recipe == Fp8Recipe::kDelayed;
}

// Whether ranks gather codes (fp8_gather.h).
inline bool GathersCodes(const Plan& plan) { return plan.fp8.gathers_codes && plan.zero == 3; }

// Widths that the products take are multiples of this.
inline constexpr int64_t kFp8Width = 16;

// Whether the products of a linear are in FP8: neither excluded nor of another width. Of the
// linears of experts those of rows are; the gradients of their weights are products in the compute
// dtype.
template <typename LinearOp>
bool InFp8(const Plan& plan, const LinearOp& linear, int64_t layer) {
  if (plan.fp8.recipe == Fp8Recipe::kNone) return false;
  if (std::is_same_v<LinearOp, model::GroupedLinearOp> && !plan.fp8.experts) return false;
  if (linear.in_features % kFp8Width != 0 || linear.out_features % kFp8Width != 0) return false;
  const std::vector<LinearPlace>& excluded = plan.fp8.excluded;
  return std::find(excluded.begin(), excluded.end(), LinearPlace{layer, linear.id}) ==
         excluded.end();
}

// Calls visit(linear, layer) for each op in FP8 of one kind.
template <typename LinearOp, typename Visit>
void VisitOpsInFp8(const Plan& plan, Visit visit) {
  for (int64_t layer = 0; layer < std::ssize(plan.architecture.blocks); ++layer) {
    for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
      const auto* linear = std::get_if<LinearOp>(&op);
      if (linear != nullptr && InFp8(plan, *linear, layer)) visit(*linear, layer);
    }
  }
}
template <typename Visit>
void VisitFp8Linears(const Plan& plan, Visit visit) {
  VisitOpsInFp8<model::LinearOp>(plan, visit);
}
template <typename Visit>
void VisitFp8Experts(const Plan& plan, Visit visit) {
  VisitOpsInFp8<model::GroupedLinearOp>(plan, visit);
}

// Rows of experts in so many tokens.
inline int64_t RowsOf(const model::GroupedLinearOp& experts, int64_t tokens) {
  return tokens * experts.routed.chosen;
}

// Whether a tensor of the base is trained.
inline bool TrainsWeight(const Plan& plan, int32_t tensor, int64_t layer) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const auto& parameter) {
    return parameter.layer == layer && parameter.tensor == tensor &&
           parameter.part == model::Part::kBase && parameter.trainable();
  });
}
// Members of a pack are alike.
inline bool TrainsWeight(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  return TrainsWeight(plan, linear.members.front().weight, layer);
}
inline bool TrainsWeight(const Plan& plan, const model::GroupedLinearOp& experts, int64_t layer) {
  return TrainsWeight(plan, experts.weight, layer);
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_
