#include "controller/driver/gang.h"

namespace coxswain::driver {

v1::Fence Gang::FenceOf(int rank) const {
  v1::Fence fence;
  fence.set_term(term);
  fence.set_job(job);
  fence.set_epoch(epoch);
  fence.set_worker_incarnation(ranks[rank].target.incarnation);
  fence.set_plan_hash(plan_hash);
  return fence;
}

bool Gang::IsCurrent(const v1::Fence& fence, int rank) const {
  return fence.term() == term && fence.job() == job && fence.epoch() == epoch &&
         fence.worker_incarnation() == ranks[rank].target.incarnation &&
         fence.plan_hash() == plan_hash;
}

}  // namespace coxswain::driver
