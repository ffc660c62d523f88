// How a router used its experts, added up over the rows of a step: for its metrics, and for
// balance_bias.h. With l the logits of a token and E experts:
//   c_e: pairs of a token and one of its k experts that went to expert e
//   n: tokens whose entropy is finite; h: the sum of their entropies
//   entropy = -sum_e p_e log p_e in nats, 0 where one expert has all, log E where all are alike
//   kSoftmax: p = softmax(l);  kSigmoid: p_e = s_e / sum_i s_i, s_e = 1 / (1 + exp(-l_e))
// p is of all experts, before groups, corrections and the choice. A padding row counts nowhere. A
// row with a NaN or +inf has no finite entropy: its pairs count, it does not add to n and h.
// Source: Shannon, "A Mathematical Theory of Communication", 1948, section 6; DeepSeek-AI,
// "DeepSeek-V3", 2024, equation 19 (normalised scores).
#ifndef COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_
#define COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/experts/route.h"

namespace coxswain::kernels {

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
  const int32_t* counts = nullptr;  // [E], of sort_by_expert.h
  double* sums = nullptr;           // [E + 2], added to
  Workspace workspace = {};
};
void ExpertUse(const ExpertUseArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_EXPERT_USE_H_
