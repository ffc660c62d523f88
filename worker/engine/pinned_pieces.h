// Host memory that becomes page-locked piece by piece on a thread of its own, and is unlocked the
// same way: to lock all of a large model's state takes longer than to form its gang, to unlock it
// longer than an abort may take.
#ifndef COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_
#define COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace coxswain::engine {

class PinnedPieces {
 public:
  // No registration spans two pieces, nor may a copy.
  static constexpr int64_t kPieceBytes = int64_t{64} << 20;

  PinnedPieces() = default;
  // Nothing may be under way there any more. The memory is unlocked, and let go, beside what
  // follows.
  ~PinnedPieces();
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  // Begins to lock `memory`, page-aligned and `bytes` long, once what others of this process left
  // locked is unlocked. Only the first call does.
  void Start(std::shared_ptr<char> memory, int64_t bytes);
  // Bytes from its start on that are locked by now: in the end all, or fewer where the system
  // allows no more.
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

#endif  // COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_
