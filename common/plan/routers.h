// The routers of a plan, and what is kept of them beside their tensors.
#ifndef COXSWAIN_COMMON_PLAN_ROUTERS_H_
#define COXSWAIN_COMMON_PLAN_ROUTERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

struct Router {
  int64_t layer = 0;
  int32_t op = 0;                         // number of its op in the block
  int64_t experts = 0, chosen = 0;        // of the layer, of a token
  int64_t use = 0;                        // first double of its sums in "router.use"
  int32_t correction = model::kNoTensor;  // number of its correction in the block
  int64_t moved = -1;  // first float of that in "router.corrections"; -1: updates do not move it
};

// In forward order.
std::vector<Router> RoutersOf(const Plan& plan);

// Doubles of "router.use": the sums of each router (kernels/experts/expert_use.h), then two of the
// losses of all (kernels/experts/router_loss.h).
int64_t RouterUseDoubles(const Plan& plan);

// Whether updates move a tensor by Plan::router_bias_rate. No gradient reaches it,
// "router.corrections" holds it whole on every rank, and a checkpoint holds it.
bool IsMovedCorrection(const Plan& plan, const model::Parameter& parameter);

// InvalidArgument names a layer whose router has no correction that router_bias_rate could move.
absl::Status CheckRouters(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_ROUTERS_H_
