#include "controller/driver/records/deleted_history.h"

#include <memory>

#include "common/logging.h"

namespace coxswain::driver {

void DeletedHistory::Sweep() {
  if (under_way_) return;
  under_way_ = true;
  OnPiece(store_->SweepDeleted());
}

void DeletedHistory::SweepInLane() {
  auto more = std::make_shared<absl::StatusOr<bool>>(false);
  loop_->Offload(
      Lane::kStore, [store = store_, more] { *more = store->SweepDeleted(); },
      lifetime_.Wrap([this, more] { OnPiece(*more); }));
}

void DeletedHistory::OnPiece(const absl::StatusOr<bool>& more) {
  if (!more.ok()) {
    log::Warning("what deleted jobs left cannot be removed from the store yet",
                 {{"error", std::string(more.status().message())}});
    loop_->After(kRetry, lifetime_.Wrap([this] { SweepInLane(); }));
  } else if (*more) {
    SweepInLane();
  } else {
    under_way_ = false;
  }
}

}  // namespace coxswain::driver
