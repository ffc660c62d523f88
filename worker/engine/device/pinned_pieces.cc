#include "worker/engine/device/pinned_pieces.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "common/mutex.h"
#include "kernels/pinned_memory.h"

namespace coxswain::engine {
namespace {

using Memory = std::shared_ptr<char>;

void Unpin(char* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += PinnedPieces::kPieceBytes) {
    kernels::UnpinMemory(data + at);
  }
}

// What this process unlocks: one after the other. Never destroyed: nobody waits for it at exit.
class Unlocking {
 public:
  static Unlocking& Get() {
    static auto* const unlocking = new Unlocking;
    return *unlocking;
  }

  void Add(Memory memory, int64_t bytes) {
    MutexLock lock(mu_);
    last_ = std::async(std::launch::async, [before = last_, memory = std::move(memory),
                                            bytes]() mutable {
              if (before.valid()) before.wait();
              Unpin(memory.get(), bytes);
              memory = nullptr;
            }).share();
  }

  bool IdleWithin(std::chrono::milliseconds limit) const {
    std::shared_future<void> last;
    {
      MutexLock lock(mu_);
      last = last_;
    }
    return !last.valid() || last.wait_for(limit) == std::future_status::ready;
  }

 private:
  mutable Mutex mu_;
  std::shared_future<void> last_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

PinnedPieces::~PinnedPieces() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  if (pinned_ > 0) Unlocking::Get().Add(std::move(memory_), pinned_);
}

void PinnedPieces::Start(std::shared_ptr<char> memory, int64_t bytes) {
  if (memory_ != nullptr || memory == nullptr || bytes == 0) return;
  memory_ = std::move(memory);
  bytes_ = bytes;
  thread_ = std::thread([this] { Pin(); });
}

void PinnedPieces::Pin() {
  while (!Unlocking::Get().IdleWithin(std::chrono::milliseconds(20))) {
    if (stopping_) return;
  }
  while (pinned_ < bytes_ && !stopping_) {
    const int64_t piece = std::min(kPieceBytes, bytes_ - pinned_);
    if (!kernels::PinMemory(memory_.get() + pinned_, piece)) return;
    pinned_ += piece;
  }
}

}  // namespace coxswain::engine
