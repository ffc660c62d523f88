#include "controller/driver/records/store_rows.h"

#include <nlohmann/json.hpp>

#include "controller/checkpoint/run_json.h"
#include "controller/gang/gang_ranks.h"

namespace coxswain::driver {

store::EpochRow EpochRowOf(const gang::Gang& gang) {
  return {.job = gang.job,
          .epoch = gang.epoch,
          .term = gang.term,
          .plan_hash = gang.plan_hash,
          .fingerprint = gang.fingerprint,
          .world_size = gang.world_size(),
          .start_step = gang.start_step,
          .gemm_table = gang.gemm_table,
          .ranks = gang::RanksJson(gang.ranks)};
}

store::EvalRow EvalRowOf(const gang::Gang& gang, const checkpoint::EvalPoint& point) {
  return {gang.job, gang.epoch, point.step, checkpoint::EvalJson(point).dump()};
}

store::CheckpointRow CheckpointRowOf(const std::string& job, uint64_t epoch,
                                     const v1::CheckpointInfo& info) {
  return {.job = job,
          .step = info.step(),
          .epoch = epoch,
          .directory = info.directory(),
          .bytes = info.bytes(),
          .committed_unix_ms = info.committed_unix_ms(),
          .eval_loss = info.eval_loss(),
          .has_eval = info.has_eval()};
}

}  // namespace coxswain::driver
