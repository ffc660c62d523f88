// The softmax of one token's router logits.
#ifndef COXSWAIN_KERNELS_CPU_EXPERTS_ROUTER_ROW_H_
#define COXSWAIN_KERNELS_CPU_EXPERTS_ROUTER_ROW_H_

#include <cmath>
#include <cstdint>

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

// p_e = exp(l_e - maximum) / sum. A NaN among the logits makes the sum NaN.
struct RouterRow {
  float maximum, sum;
};

COXSWAIN_INLINE RouterRow ReadRouterRow(const float* logits, int64_t experts) {
  float maximum = logits[0];
  for (int64_t e = 1; e < experts; ++e) maximum = maximum < logits[e] ? logits[e] : maximum;
  float lanes[kLanes] = {};
  int64_t e = 0;
  for (; e + kLanes <= experts; e += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += Exp(logits[e + j] - maximum);
  }
  for (int64_t j = 0; e + j < experts; ++j) lanes[j] += Exp(logits[e + j] - maximum);
  return {.maximum = maximum, .sum = SumLanes(lanes)};
}

// log of the sum of exp(l_e).
inline double LogSum(const RouterRow& row) {
  return static_cast<double>(row.maximum) + std::log(static_cast<double>(row.sum));
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_EXPERTS_ROUTER_ROW_H_
