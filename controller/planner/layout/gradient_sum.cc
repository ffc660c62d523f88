#include "controller/planner/layout/gradient_sum.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/extents.h"
#include "common/plan/gradient_sum.h"
#include "common/plan/storage.h"
#include "controller/planner/layout/fit_experts.h"
#include "controller/planner/memory/buffer_table.h"

namespace coxswain::planner {
namespace {

using plan::GradientSum;

struct Choice {
  Precision dtype{};
  GradientSum sum = GradientSum::kNearest;

  bool IsOf(const plan::Plan& plan) const {
    return dtype == plan.gradient_dtype && sum == plan.gradient_sum;
  }
};

GradientSum Named(const std::string& word) {
  for (const GradientSum sum : {GradientSum::kStochastic, GradientSum::kCompensated}) {
    if (word == plan::GradientSumName(sum)) return sum;
  }
  return GradientSum::kNearest;
}

// In order of preference.
std::vector<Choice> Choices(const config::JobSpec& job, int64_t global_batch_bins,
                            const plan::Plan& plan) {
  const int64_t terms = GradientTermsOfStep(global_batch_bins, plan);
  if (terms == 0) return {{plan.gradient_dtype}};
  if (job.gradient_sum != "auto") return {{plan.gradient_dtype, Named(job.gradient_sum)}};
  if (terms <= kMostNearestTerms) return {{plan.gradient_dtype}};
  std::vector<Choice> choices;
  if (!job.gradient_dtype.has_value()) choices.push_back({Precision::kFloat32});
  choices.push_back({plan.gradient_dtype, GradientSum::kCompensated});
  choices.push_back({plan.gradient_dtype, GradientSum::kStochastic});
  return choices;
}

}  // namespace

int64_t GradientTermsOfStep(int64_t global_batch_bins, const plan::Plan& plan) {
  const int64_t of_rank = CeilDiv(global_batch_bins, int64_t{plan.world_size()});
  return plan::GradientTerms(plan, CeilDiv(of_rank, plan.micro_batch_bins));
}

bool FitGradientSum(const config::JobSpec& job, int64_t global_batch_bins, uint64_t memory_bytes,
                    plan::Plan* plan) {
  const std::vector<Choice> choices = Choices(job, global_batch_bins, *plan);
  if (choices.size() == 1 && choices.front().IsOf(*plan)) return FitExperts(memory_bytes, plan);
  const plan::Plan applied = *plan;
  for (const Choice& choice : choices) {
    *plan = applied;
    plan->gradient_dtype = choice.dtype;
    plan->gradient_sum = choice.sum;
    plan->buffers = BufferTable(*plan);
    if (FitExperts(memory_bytes, plan)) return true;
  }
  return false;
}

void DropNeedlessSum(const config::JobSpec& job, int64_t global_batch_bins, plan::Plan* plan) {
  if (job.gradient_sum != "auto" || plan->gradient_sum == GradientSum::kNearest ||
      GradientTermsOfStep(global_batch_bins, *plan) > kMostNearestTerms) {
    return;
  }
  plan->gradient_sum = GradientSum::kNearest;
  plan->buffers = BufferTable(*plan);
}

std::string GradientSumText(const config::JobSpec& job, int64_t global_batch_bins,
                            const plan::Plan& plan) {
  const int64_t terms = GradientTermsOfStep(global_batch_bins, plan);
  if (terms == 0) return "";
  const std::string name = plan::GradientSumName(plan.gradient_sum);
  const std::string count = absl::StrCat(terms, " terms in a step");
  if (job.gradient_sum != "auto") return absl::StrCat(name, " as the job says, ", count);
  if (plan.gradient_sum == GradientSum::kNearest) {
    return absl::StrCat(name, ", ", count, ", at most ", kMostNearestTerms);
  }
  const bool open = !job.gradient_dtype.has_value();
  const bool drawn = plan.gradient_sum == GradientSum::kStochastic;
  return absl::StrCat(name, ", ", count, ", more than ", kMostNearestTerms,
                      open || drawn ? "; no memory for " : "", open ? "float32" : "",
                      open && drawn ? " or " : "", drawn ? "a companion" : "");
}

}  // namespace coxswain::planner
