#include "common/plan/fusions/fused_ops.h"

#include <algorithm>

#include "common/plan/fusions/fusions.h"

namespace coxswain::plan {

OpLists OpListsOf(const Plan& plan) {
  OpLists lists = PlainOpLists(plan.architecture);
  for (const Fusion& fusion : Fusions()) {
    const bool named =
        std::find(plan.fusions.begin(), plan.fusions.end(), fusion.name) != plan.fusions.end();
    if (named) fusion.rewrite(plan, &lists);
  }
  return lists;
}

std::vector<std::string> ApplicableFusions(const Plan& plan) {
  OpLists lists = PlainOpLists(plan.architecture);
  std::vector<std::string> names;
  for (const Fusion& fusion : Fusions()) {
    if (fusion.rewrite(plan, &lists) > 0) names.emplace_back(fusion.name);
  }
  return names;
}

}  // namespace coxswain::plan
