#include "worker/engine/pinned_pieces.h"

#include <algorithm>

#include "kernels/pinned_memory.h"

namespace coxswain::engine {

PinnedPieces::~PinnedPieces() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  for (int64_t at = 0; at < pinned_; at += kPieceBytes) kernels::UnpinMemory(data_ + at);
}

void PinnedPieces::Start(char* data, int64_t bytes) {
  if (data_ != nullptr || bytes == 0) return;
  data_ = data;
  bytes_ = bytes;
  thread_ = std::thread([this] { Pin(); });
}

void PinnedPieces::Pin() {
  while (pinned_ < bytes_ && !stopping_) {
    const int64_t piece = std::min(kPieceBytes, bytes_ - pinned_);
    if (!kernels::PinMemory(data_ + pinned_, piece)) return;
    pinned_ += piece;
  }
}

}  // namespace coxswain::engine
