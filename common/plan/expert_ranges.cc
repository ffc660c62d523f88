#include "common/plan/expert_ranges.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/storage.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {
namespace {

bool IsQuantizedStack(const Plan& plan, const model::Parameter& parameter) {
  return model::IsBase(parameter, model::Kind::kExperts) &&
         IsQuantized(StorageOf(plan, parameter).weights);
}

int64_t ElementsOfExpert(const model::Parameter& stack) { return stack.elements() / stack.batch; }

// A block of NF4 is a multiple of one of MXFP4; a row of INT8 is never cut.
bool BeginsWithABlock(const Plan& plan, const model::Parameter& stack, int64_t at_once) {
  const bool rows = StorageOf(plan, stack).weights == Storage::kInt8;
  return rows || at_once >= stack.batch ||
         ElementsOfExpert(stack) * at_once % kernels::kNf4Block == 0;
}

}  // namespace

bool InRanges(const Plan& plan, const model::Parameter& parameter) {
  return plan.experts_at_once > 0 && IsQuantizedStack(plan, parameter);
}

int64_t ExpertRangeBytes(const Plan& plan) {
  int64_t elements = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!InRanges(plan, parameter)) continue;
    const int64_t experts = std::min(plan.experts_at_once, parameter.batch);
    elements = std::max(elements, experts * ElementsOfExpert(parameter));
  }
  return StorageBytes(ComputeStorage(plan), elements);
}

std::vector<int64_t> ExpertRangeSizes(const Plan& plan) {
  std::vector<const model::Parameter*> stacks;
  int64_t most = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!IsQuantizedStack(plan, parameter)) continue;
    stacks.push_back(&parameter);
    most = std::max(most, parameter.batch);
  }
  std::vector<int64_t> sizes;
  for (int64_t size = most; size > 0; size /= 2) {
    if (std::all_of(stacks.begin(), stacks.end(), [&](const model::Parameter* stack) {
          return BeginsWithABlock(plan, *stack, size);
        })) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

absl::Status CheckExpertRanges(const Plan& plan) {
  if (plan.experts_at_once == 0) return absl::OkStatus();
  const int64_t experts = plan.model.mixture.experts;
  if (plan.experts_at_once < 0 || plan.experts_at_once > experts) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: experts_at_once is ", plan.experts_at_once, ", wanted 0..", experts));
  }
  bool any = false;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!IsQuantizedStack(plan, parameter)) continue;
    any = true;
    if (BeginsWithABlock(plan, parameter, plan.experts_at_once)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan: ", plan.experts_at_once, " experts of \"", parameter.name, "\" are ",
                     plan.experts_at_once * ElementsOfExpert(parameter),
                     " elements, wanted a multiple of ", kernels::kNf4Block));
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: experts_at_once is ", plan.experts_at_once,
                                                 ", wanted 0: no expert is quantised"));
}

}  // namespace coxswain::plan
