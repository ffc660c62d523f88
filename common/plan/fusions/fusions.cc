#include "common/plan/fusions/fusions.h"

namespace coxswain::plan {

const std::vector<Fusion>& Fusions() {
  static const auto* const kFusions = new std::vector<Fusion>{
      kLinearRotateFusion,       kLinearAddFusion, kAddNormFusion,        kGatedLinearFusion,
      kGroupedGatedLinearFusion, kGateDownFusion,  kAttentionRotateFusion};
  return *kFusions;
}

}  // namespace coxswain::plan
