// Host memory that a separate thread page-locks and unlocks piece by piece. Locking all state of a
// large model takes longer than forming its gang, and unlocking it longer than an abort may take.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_PINNED_PIECES_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_PINNED_PIECES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace coxswain::engine {

class PinnedPieces {
 public:
  // No registration spans two pieces, and no copy may.
  static constexpr int64_t kPieceBytes = int64_t{64} << 20;

  PinnedPieces() = default;
  // No copy may be in flight. The memory is unlocked and released in the background.
  ~PinnedPieces();
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  // Begins to lock `memory`, page-aligned and `bytes` long, once memory of earlier objects of this
  // process is unlocked. Only the first call has an effect.
  void Start(std::shared_ptr<char> memory, int64_t bytes);
  // Bytes that are locked so far, counted from the start of the memory. In the end all, or fewer if
  // the system allows no more.
  int64_t pinned() const { return pinned_; }

 private:
  void Pin();

  std::shared_ptr<char> memory_;
  int64_t bytes_ = 0;
  std::atomic<int64_t> pinned_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_PINNED_PIECES_H_
