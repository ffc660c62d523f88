#include "controller/gang/gang.h"

namespace coxswain::gang {

v1::Fence Gang::SharedFence() const {
  v1::Fence fence;
  fence.set_term(term);
  fence.set_job(job);
  fence.set_epoch(epoch);
  fence.set_plan_hash(plan_hash);
  fence.set_store(store);
  return fence;
}

v1::Fence Gang::FenceOf(int rank) const {
  v1::Fence fence = SharedFence();
  fence.set_worker_incarnation(ranks[rank].target.incarnation);
  return fence;
}

bool Gang::IsCurrent(const v1::Fence& fence, int rank) const {
  return fence.store() == store && fence.term() == term && fence.job() == job &&
         fence.epoch() == epoch && fence.worker_incarnation() == ranks[rank].target.incarnation &&
         fence.plan_hash() == plan_hash;
}

double Gang::PeakFlops() const {
  double peak = 0;
  for (const Rank& rank : ranks) {
    if (rank.peak_flops <= 0) return 0;
    peak += rank.peak_flops;
  }
  return peak;
}

}  // namespace coxswain::gang
