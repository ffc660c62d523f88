#include "common/plan/fusions/fused_ops.h"

#include <algorithm>

namespace coxswain::plan {

const std::vector<Fusion>& Fusions() {
  static const auto* const kFusions = new std::vector<Fusion>{
      kLinearRotateFusion,       kLinearAddFusion, kAddNormFusion,        kGatedLinearFusion,
      kGroupedGatedLinearFusion, kGateDownFusion,  kAttentionRotateFusion};
  return *kFusions;
}

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
