// How experts are used, and the correction that evens it out.
#ifndef COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_
#define COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/experts/route.h"

namespace coxswain::kernels {

// How a router used its experts, added up over the rows of a step: for its metrics, and for
// expert_use.h. With l the logits of a token and E experts:
//   c_e: pairs of a token and one of its k experts that went to expert e
//   n: tokens whose entropy is finite; h: the sum of their entropies
//   entropy = -sum_e p_e log p_e in nats, 0 where one expert has all, log E where all are alike
//   kSoftmax: p = softmax(l);  kSigmoid: p_e = s_e / sum_i s_i, s_e = 1 / (1 + exp(-l_e))
// p is of all experts, before groups, corrections and the choice. A padding row counts nowhere. A
// row with a NaN or +inf has no finite entropy: its pairs count, it does not add to n and h.
// Source: Shannon, "A Mathematical Theory of Communication", 1948, section 6; DeepSeek-AI,
// "DeepSeek-V3", 2024, equation 19 (normalised scores).
struct ExpertUseSpec {
  int64_t experts = 0;  // E
  int64_t chosen = 0;   // k
  RouterScore score = RouterScore::kSoftmax;
};
bool ExpertUseSupports(const ExpertUseSpec& spec);

// Doubles of a router: c [E], n, h. Those of micro-steps and ranks add up; c and n are exact.
constexpr int64_t ExpertUseCount(int64_t experts) { return experts + 2; }
int64_t ExpertUseWorkspaceBytes(const ExpertUseSpec& spec, int64_t tokens);

struct ExpertUseArgs {
  ExpertUseSpec spec = {};
  int64_t tokens = 0;               // T
  const float* logits = nullptr;    // [T, E]
  const int32_t* ids = nullptr;     // [T, k], of route.h; -1 in a row: padding
  const int32_t* counts = nullptr;  // [E], of expert_rows.h
  double* sums = nullptr;           // [E + 2], added to
  Workspace workspace = {};
};
void ExpertUse(const ExpertUseArgs& args, Stream* stream);

// Balances experts without a loss: the correction of each router that decides who is chosen
// (route.h) moves by a fixed amount against the use of its expert. With c_e the pairs of expert e
// in a step and their mean over the E experts:
//   b_e += rate sign(mean - c_e)
// E c_e and the sum of c are exact, so that ranks which hold the same counts move alike.
// Source: Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024,
// algorithm 1.
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

#endif  // COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_
