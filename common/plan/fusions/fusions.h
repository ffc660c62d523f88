// Rules that rewrite the lists of ops where one kernel does the work of two. One file each.
#ifndef COXSWAIN_COMMON_PLAN_FUSIONS_FUSIONS_H_
#define COXSWAIN_COMMON_PLAN_FUSIONS_FUSIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/plan/op_lists.h"

namespace coxswain::plan {

struct Fusion {
  std::string_view name;
  // The number of pairs that it replaced.
  int64_t (*rewrite)(const Plan& plan, OpLists* lists) = nullptr;
};

extern const Fusion kLinearRotateFusion, kLinearAddFusion, kAddNormFusion, kGatedLinearFusion,
    kGroupedGatedLinearFusion, kGateDownFusion, kAttentionRotateFusion;

// In the order in which they apply.
const std::vector<Fusion>& Fusions();

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FUSIONS_FUSIONS_H_
