// Balances experts without a loss: the correction of each router that decides who is chosen
// (route.h) moves by a fixed amount against the use of its expert. With c_e the pairs of expert e
// in a step and their mean over the E experts:
//   b_e += rate sign(mean - c_e)
// E c_e and the sum of c are exact, so that ranks which hold the same counts move alike.
// Source: Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024,
// algorithm 1.
#ifndef COXSWAIN_KERNELS_EXPERTS_BALANCE_BIAS_H_
#define COXSWAIN_KERNELS_EXPERTS_BALANCE_BIAS_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

struct BalanceBiasArgs {
  int64_t routers = 0, experts = 0;  // R, E
  int64_t stride = 0;                // doubles from the counts of a router to those of the next
  const double* counts = nullptr;    // [R, E], integers; below 2^53 / E
  const float* rate = nullptr;       // one, in device memory; 0: nothing moves
  const int32_t* skip = nullptr;     // one, in device memory; not 0: nothing moves
  float* bias = nullptr;             // [R, E]
};
void BalanceBias(const BalanceBiasArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_BALANCE_BIAS_H_
