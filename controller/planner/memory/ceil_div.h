// Division that rounds up.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_CEIL_DIV_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_CEIL_DIV_H_

#include <cstdint>

namespace coxswain::planner {

// a / b, rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_CEIL_DIV_H_
