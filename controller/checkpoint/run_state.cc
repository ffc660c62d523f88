#include "controller/checkpoint/run_state.h"

#include <cmath>
#include <limits>

namespace coxswain::checkpoint {

EvalMetric MetricNamed(std::string_view name) {
  if (name == "eval_rewards/margins") return EvalMetric::kMargin;
  const bool accuracy = name == "eval_rewards/accuracies" || name == "eval_accuracy";
  return accuracy ? EvalMetric::kAccuracy : EvalMetric::kLoss;
}

double ValueOf(const EvalPoint& point, EvalMetric metric) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (metric == EvalMetric::kLoss) return point.loss;
  return (metric == EvalMetric::kMargin ? point.margin : point.accuracy).value_or(kNone);
}

bool EarlyStop::Add(EvalPoint point, EvalMetric metric) {
  const double now = ValueOf(point, metric);
  const double before = best ? ValueOf(*best, metric) : std::numeric_limits<double>::quiet_NaN();
  const bool first = !best.has_value() || (std::isnan(before) && !std::isnan(now));
  if (first || (metric == EvalMetric::kLoss ? now < before : now > before)) {
    best = point;
    without_improvement = 0;
    return true;
  }
  ++without_improvement;
  return false;
}

void SkippedSteps::Add(int64_t step, bool skipped) {
  while (!recent.empty() && recent.front() <= step - kWindow) recent.pop_front();
  if (!skipped) {
    in_a_row = 0;
    return;
  }
  ++total;
  ++in_a_row;
  recent.push_back(step);
}

}  // namespace coxswain::checkpoint
