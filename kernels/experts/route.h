// The router of a mixture of experts: which k of E experts a token goes to, and with what weights.
// With l the token's logits in float32 and b the correction bias (0 without one):
//   kSoftmax: v_e = l_e, s = softmax(l);  kSigmoid: s_e = 1 / (1 + exp(-l_e)), v_e = s_e + b_e
//   The experts are those of the k largest v, the largest first; of equals the lower index.
//   With groups, E / groups experts lie in a group. An expert counts only where its group is among
//   the top_groups groups by the sum of the two largest v of a group.
//   w_j = scale s_j; with renormalise w_j = scale s_j / d, where d is the sum of s over the chosen.
//   kSigmoid adds 1e-20 to d.
// kSoftmax with renormalise is the softmax over the chosen logits, as gpt-oss has it. The bias
// decides who is chosen and does not enter a weight.
// The gradient of the weights, g [k], reaches the logits; the choice has none. p = softmax(l), q
// the softmax over the chosen, e_j the j-th chosen:
//   kSoftmax: dl_e = scale p_e (g_e - sum_j g_j p_{e_j}), g_e 0 where e is not chosen
//     renormalised: dl_{e_j} = scale q_j (g_j - sum_i g_i q_i), 0 elsewhere
//   kSigmoid: dl_{e_j} = scale g_j s_j (1 - s_j), 0 elsewhere
//     renormalised: g_j is (g_j - sum_i g_i s_i / d) / d
// A padding row has ids -1 and weights 0; its logits are not read and their gradient is 0. A row
// with a NaN logit goes to experts 0 to k - 1 with weights NaN, and the gradient of its logits is
// NaN: the ids are the same on every run, the row's weights report the NaN, and it reaches this
// token's output alone. A NaN in the bias routes every row so.
// Ids are kept for backward and never computed again: a tie that flipped would break it.
// Source: transformers MixtralTopKRouter, GptOssTopKRouter; DeepSeek-AI, "DeepSeek-V3", 2024,
// section 2.1.2 and its Gate.
#ifndef COXSWAIN_KERNELS_EXPERTS_ROUTE_H_
#define COXSWAIN_KERNELS_EXPERTS_ROUTE_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

inline constexpr int64_t kMostExperts = 1024;

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

struct RouteSpec {
  int64_t experts = 0;  // E, at most kMostExperts
  int64_t chosen = 0;   // k, at most E
  RouterScore score = RouterScore::kSoftmax;
  // Of kSigmoid. They divide E; top_groups groups have at least k experts.
  int64_t groups = 1, top_groups = 1;
  bool renormalise = false;
  float scale = 1.0f;
};
bool RouteSupports(const RouteSpec& spec);

struct RouteForwardArgs {
  RouteSpec spec = {};
  int64_t tokens = 0;                // T
  const float* logits = nullptr;     // [T, E]
  const float* bias = nullptr;       // [E], kSigmoid alone; null: none
  const int32_t* padding = nullptr;  // [T], negative: the row is padding; null: no row is
  int32_t* ids = nullptr;            // [T, k]
  float* weights = nullptr;          // [T, k]
};
void RouteForward(const RouteForwardArgs& args, Stream* stream);

struct RouteBackwardArgs {
  RouteSpec spec = {};
  int64_t tokens = 0;
  const float* logits = nullptr;    // [T, E]
  const int32_t* ids = nullptr;     // [T, k], of forward; -1 in a row: padding
  const float* dweights = nullptr;  // [T, k]
  float* dlogits = nullptr;         // [T, E], overwritten
};
void RouteBackward(const RouteBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_ROUTE_H_
