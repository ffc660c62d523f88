// The lists of ops rewritten by the plan's fusions. A function of the plan: planner and engine
// derive the same lists.
#ifndef COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_
#define COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_

#include <string>
#include <vector>

#include "common/plan/op_lists.h"

namespace coxswain::plan {

// Rewritten by the rules that plan.fusions names.
OpLists OpListsOf(const Plan& plan);

// The names of all rules that rewrite anything in the plan's model.
std::vector<std::string> ApplicableFusions(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_
