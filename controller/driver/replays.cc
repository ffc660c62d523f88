#include "controller/driver/replays.h"
#include "common/plan/plan_bytes.h"

#include <string>
#include <utility>

namespace coxswain::driver {

bool SameArithmetic(plan::Plan a, const plan::Plan& b) {
  a.links = b.links;
  a.links_measured = b.links_measured;
  a.predicted = b.predicted;
  a.snapshot_in_slices = b.snapshot_in_slices;  // how fast they are taken
  return a == b;
}

std::string LastGemmTable(const std::vector<store::EpochRow>& epochs) {
  for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch) {
    if (!epoch->gemm_table.empty()) return epoch->gemm_table;
  }
  return "";
}

bool MustAgree(const store::EpochRow& epoch, const Gang& gang, store::Store* store) {
  if (epoch.fingerprint != gang.fingerprint || epoch.world_size != gang.world_size()) return false;
  if (epoch.gemm_table != gang.gemm_table) return false;
  if (epoch.plan_hash == gang.plan_hash) return true;
  const absl::StatusOr<std::string> bytes = store->PlanBytes(epoch.plan_hash);
  if (!bytes.ok()) return false;
  absl::StatusOr<plan::Plan> before = plan::ParsePlan(*bytes);
  const absl::StatusOr<plan::Plan> now = plan::ParsePlan(gang.plan_bytes);
  return before.ok() && now.ok() && SameArithmetic(*std::move(before), *now);
}

}  // namespace coxswain::driver
