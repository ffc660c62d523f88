// Host memory that becomes page-locked piece by piece on a thread of its own: to lock all of a
// large model's state takes longer than to form its gang.
#ifndef COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_
#define COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace coxswain::engine {

class PinnedPieces {
 public:
  // No registration spans two pieces, nor may a copy.
  static constexpr int64_t kPieceBytes = int64_t{64} << 20;

  PinnedPieces() = default;
  ~PinnedPieces();  // unlocks; nothing may be under way there any more
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  // Begins to lock [data, data + bytes), page-aligned, which outlives this; once.
  void Start(char* data, int64_t bytes);
  // Bytes from `data` on that are locked by now: in the end all, or fewer where the system allows
  // no more.
  int64_t pinned() const { return pinned_; }

 private:
  void Pin();

  char* data_ = nullptr;
  int64_t bytes_ = 0;
  std::atomic<int64_t> pinned_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PINNED_PIECES_H_
