#include "controller/checkpoint/run_state.h"

#include <cmath>

namespace coxswain::checkpoint {

bool EarlyStop::Add(EvalPoint point) {
  const bool first = !best.has_value() || (std::isnan(best->loss) && !std::isnan(point.loss));
  if (first || point.loss < best->loss) {
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
