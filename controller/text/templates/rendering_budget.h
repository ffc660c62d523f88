// Bounds the cost of all renderings of one dataset together.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_RENDERING_BUDGET_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_RENDERING_BUDGET_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

namespace coxswain::data {

// The limits of one rendering (jinja/limits.h) are far above the need of a usual conversation, so
// that a long one fits. A template that comes near them for each record would take days. The budget
// is a fixed amount and an amount per rendering, some hundred times the cost of published models'
// templates. Threads share it.
class RenderingBudget {
 public:
  static constexpr std::chrono::seconds kTime{600};
  static constexpr std::chrono::milliseconds kTimeOfOne{50};
  static constexpr int64_t kBytes = int64_t{1} << 30;
  static constexpr int64_t kBytesOfOne = int64_t{1} << 20;

  // Counts a rendering. FailedPrecondition, with sum and bound: the budget is used up. The job then
  // fails, whatever its on_bad_record.
  absl::Status Charge(std::chrono::nanoseconds took, int64_t bytes);

 private:
  std::atomic<int64_t> renderings_ = 0;
  std::atomic<int64_t> took_ns_ = 0;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_RENDERING_BUDGET_H_
