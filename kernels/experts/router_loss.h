// The losses of a router, over one pool of rows: of a bin, or of all layers of a micro-batch.
// With N the rows that are not padding, p_t = softmax(l_t) over all E experts, and f_e how often
// expert e was chosen in the pool, over N (the f sum to k and have no gradient):
//   balance = E sum_e f_e mean_t(p_{t,e})      k where the experts are used alike
//   z = mean_t(lse_t^2), lse_t = log sum_e exp l_{t,e}
//   The gradient of a balance + b z, of which a and b are given:
//   dl_{t,e} = p_{t,e} (a E (f_e - sum_i f_i p_{t,i}) + 2 b lse_t) / N
// A pool of no rows has losses of 0. A NaN among the logits makes both losses NaN, and the gradient
// of its own row. The router's scores play no part: the losses are of the softmax for every router.
// Source: transformers load_balancing_loss_func; Zoph et al., "ST-MoE", 2022, equation 5 (z).
#ifndef COXSWAIN_KERNELS_EXPERTS_ROUTER_LOSS_H_
#define COXSWAIN_KERNELS_EXPERTS_ROUTER_LOSS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct RouterLossSpec {
  int64_t experts = 0;  // E
  int64_t chosen = 0;   // k
};
bool RouterLossSupports(const RouterLossSpec& spec);

// Doubles that hold a pool: sums of p by expert [E], choices by expert [E], N, and the sum of
// lse^2. Pools of ranks add up.
constexpr int64_t RouterLossSumCount(const RouterLossSpec& spec) { return 2 * spec.experts + 2; }
int64_t RouterLossSumsWorkspaceBytes(const RouterLossSpec& spec, int64_t tokens);

// Adds the rows of a layer to the pool.
struct RouterLossSumsArgs {
  RouterLossSpec spec = {};
  int64_t tokens = 0;             // T
  const float* logits = nullptr;  // [T, E]
  const int32_t* ids = nullptr;   // [T, k], of route.h; -1 in a row: padding
  bool accumulate = false;        // false: the pool starts with these rows
  double* sums = nullptr;         // [2 E + 2]
  Workspace workspace = {};
};
void RouterLossSums(const RouterLossSumsArgs& args, Stream* stream);

struct RouterLossArgs {
  RouterLossSpec spec = {};
  const double* sums = nullptr;  // [2 E + 2], of the whole pool
  double* losses = nullptr;      // [2]: balance, z
  // Where both are given, *total += factors[0] balance + factors[1] z.
  const float* factors = nullptr;  // [2], in device memory
  double* total = nullptr;
  double* parts = nullptr;  // [2], added to likewise: each summand by itself; null: not wanted
};
void RouterLoss(const RouterLossArgs& args, Stream* stream);

// Of the rows of one layer.
struct RouterLossGradientArgs {
  RouterLossSpec spec = {};
  int64_t tokens = 0;
  const float* logits = nullptr;   // [T, E]
  const int32_t* ids = nullptr;    // [T, k]
  const double* sums = nullptr;    // [2 E + 2], of the whole pool
  const float* factors = nullptr;  // [2], in device memory: a, b
  float* dlogits = nullptr;        // [T, E], accumulated
  const float* scale = nullptr;    // in device memory, multiplies both; null: 1
};
void RouterLossGradient(const RouterLossGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_ROUTER_LOSS_H_
