#include "controller/driver/training/replays.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/plan/checks/plan_bytes.h"

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

bool MustAgree(const store::EpochRow& epoch, const gang::Gang& gang, store::Store* store) {
  if (epoch.fingerprint != gang.fingerprint || epoch.world_size != gang.world_size()) return false;
  if (epoch.gemm_table != gang.gemm_table) return false;
  if (epoch.plan_hash == gang.plan_hash) return true;
  const absl::StatusOr<std::string> bytes = store->PlanBytes(epoch.plan_hash);
  if (!bytes.ok()) return false;
  absl::StatusOr<plan::Plan> before = plan::ParsePlan(*bytes);
  const absl::StatusOr<plan::Plan> now = plan::ParsePlan(gang.plan_bytes);
  return before.ok() && now.ok() && SameArithmetic(*std::move(before), *now);
}

Replays::Replays(const std::vector<store::StepRow>& recorded) {
  for (const store::StepRow& row : recorded) recorded_.emplace(row.step, row);
}

size_t Replays::KeepComparable(const gang::Gang& gang, store::Store* store) {
  const absl::StatusOr<std::vector<store::EpochRow>> epochs = store->Epochs(gang.job);
  std::map<uint64_t, bool> must_agree;  // by epoch
  return std::erase_if(recorded_, [&](const auto& entry) {
    const uint64_t trained_in = entry.second.epoch;
    const auto [known, first] = must_agree.try_emplace(trained_in, false);
    if (first && epochs.ok()) {
      known->second = std::any_of(epochs->begin(), epochs->end(), [&](const auto& epoch) {
        return epoch.epoch == trained_in && MustAgree(epoch, gang, store);
      });
    }
    return !known->second;
  });
}

const store::StepRow* Replays::Find(int64_t step) const {
  const auto found = recorded_.find(step);
  return found == recorded_.end() ? nullptr : &found->second;
}

std::string Divergence(const StepResult& result, uint64_t epoch, const store::StepRow& before) {
  if (before.loss_bits == result.loss_bits && before.gnorm_bits == result.gnorm_bits) return "";
  return absl::StrFormat(
      "step %d replayed in gang %d gave loss %.17g and grad norm %.17g, gang %d gave %.17g and "
      "%.17g: a bug or silent corruption",
      result.step, epoch, result.loss, result.grad_norm, before.epoch,
      std::bit_cast<double>(before.loss_bits), std::bit_cast<double>(before.gnorm_bits));
}

}  // namespace coxswain::driver
