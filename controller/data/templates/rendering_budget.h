// What all renderings of one dataset may cost together.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_RENDERING_BUDGET_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_RENDERING_BUDGET_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

namespace coxswain::data {

// The limits of one rendering (jinja/limits.h) are far above what conversations need, so that a
// long one fits; a template that comes near them for each record takes days. So much is given once,
// and so much for each rendering: some hundred times what those of published models take. Threads
// share it.
class RenderingBudget {
 public:
  static constexpr std::chrono::seconds kTime{600};
  static constexpr std::chrono::milliseconds kTimeOfOne{50};
  static constexpr int64_t kBytes = int64_t{1} << 30;
  static constexpr int64_t kBytesOfOne = int64_t{1} << 20;

  // Counts a rendering. FailedPrecondition, with sum and bound: the budget is used up; whatever the
  // job does with bad records, it fails.
  absl::Status Charge(std::chrono::nanoseconds took, int64_t bytes);

 private:
  std::atomic<int64_t> renderings_ = 0;
  std::atomic<int64_t> took_ns_ = 0;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_RENDERING_BUDGET_H_
