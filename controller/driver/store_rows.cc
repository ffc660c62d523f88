#include "controller/driver/store_rows.h"

namespace coxswain::driver {

store::EpochRow EpochRowOf(const Gang& gang) {
  return {.job = gang.job,
          .epoch = gang.epoch,
          .term = gang.term,
          .plan_hash = gang.plan_hash,
          .fingerprint = gang.fingerprint,
          .world_size = gang.world_size(),
          .start_step = gang.start_step,
          .gemm_table = gang.gemm_table};
}

}  // namespace coxswain::driver
