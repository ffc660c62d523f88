// The snapshot: a frozen copy of the masters, optimizer states and counters of the trainable
// tensors, of the corrections of routers that updates move and of the history of scales in FP8, for
// a checkpoint.
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_COPY_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_COPY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/plan/plan.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/device/pinned_pieces.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

struct SnapshotCounters {
  int64_t finished_steps = -1;  // -1: no snapshot taken
  int64_t applied_updates = 0;
};

// The snapshots of one engine. The engine's thread takes them. Another thread may read the newest
// one meanwhile.
//
// On a GPU a thread makes the copy on a separate stream, during the next forward and backward. Only
// the optimizer's update, which overwrites the state, waits for it. Two pieces are in flight at a
// time, because the device's copy engines work in order, also for other ranks. Memory that is not
// page-locked is copied through page-locked slices. On a CPU the copy is made at once, with the
// threads of compute.
class StateCopy {
 public:
  explicit StateCopy(const plan::Plan& plan);
  ~StateCopy();  // waits for the copy

  // Begins to page-lock the memory of the snapshot, unless the plan copies in slices. Call it when
  // training has begun, so that no gang waits for it. `snapshot` holds Buffers::snapshot; null if
  // that is not host memory.
  void PinBeside(const ParameterLayout& layout, std::shared_ptr<char> snapshot);

  // Copies the state after the work of `stream` into Buffers::snapshot, before the next update.
  // FailedPrecondition, naming both steps, while the previous snapshot is being read.
  absl::Status Take(const ParameterLayout& layout, const SnapshotCounters& counters,
                    const Buffers& buffers, kernels::Stream* stream);
  // Makes later work of `stream`, which may overwrite the state, wait for the copy. Call it outside
  // any graph. Throws the device's error of the copy.
  void AwaitCopied(kernels::Stream* stream);

  // Any thread. Calls `read` with the newest snapshot when it is copied, and keeps it until `read`
  // returns. FailedPrecondition if it is not of `finished_steps`, or while another thread reads.
  absl::Status Read(int64_t finished_steps,
                    const std::function<absl::Status(const SnapshotCounters&)>& read);

  // Any thread: a read in progress should end.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  class Reading;
  struct Piece {
    char* to;
    const char* from;
    int64_t bytes;
  };
  static std::vector<Piece> Pieces(const ParameterLayout& layout, const Buffers& buffers);
  // Copies `pieces`: directly below `pinned_end`, else through slices.
  void Carry(const std::vector<Piece>& pieces, const char* pinned_end);
  std::shared_future<void> carried() const;

  const bool on_cpu_, in_slices_;
  StreamHandle side_;           // of the copies
  EventHandle ready_, copied_;  // in the engine's stream; in side_
  bool overwrite_waits_ = false;
  std::atomic<bool> cancelled_{false};
  PinnedPieces pinned_;
  std::unique_ptr<PinnedArray<char>> slices_;  // two, made when they are first needed
  mutable Mutex mu_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  SnapshotCounters counters_ ABSL_GUARDED_BY(mu_);
  std::shared_future<void> carried_ ABSL_GUARDED_BY(mu_);  // invalid: nothing was to be carried
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_COPY_H_
