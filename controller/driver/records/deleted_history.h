// Deletes the rows of deleted jobs in the background.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_DELETED_HISTORY_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_DELETED_HISTORY_H_

#include <chrono>

#include "absl/status/statusor.h"
#include "controller/runtime/loop.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// Loop thread only. Pieces go in the journal's lane, whose commits come between them. A store that
// takes no writes is tried again.
class DeletedHistory {
 public:
  static constexpr std::chrono::seconds kRetry{10};

  DeletedHistory(Loop* loop, store::Store* store) : loop_(loop), store_(store) {}

  // Sweeps until nothing is left; at once where there is nothing.
  void Sweep();

 private:
  void SweepInLane();
  void OnPiece(const absl::StatusOr<bool>& more);

  Loop* const loop_;
  store::Store* const store_;
  bool under_way_ = false;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_DELETED_HISTORY_H_
