#include "controller/transport/fan_out.h"

#include <algorithm>

namespace coxswain {
namespace {

constexpr int kChunk = 16;  // indices taken at once
constexpr int kMostThreads = 8;

}  // namespace

FanOut::FanOut(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Thread(); });
}

FanOut::~FanOut() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

int FanOut::DefaultThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, kMostThreads) - 1;
}

void FanOut::ForAll(int count, const std::function<void(int, int)>& fn) {
  if (threads_.empty() || count <= 2 * kChunk) {
    for (int i = 0; i < count; i += kChunk) fn(i, std::min(i + kChunk, count));
    return;
  }
  MutexLock lock(mu_);
  fn_ = &fn;
  count_ = pending_ = count;
  next_ = 0;
  wake_.NotifyAll();
  Take();
  finished_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return pending_ == 0; });
}

void FanOut::Take() {
  while (next_ < count_) {
    const int begin = next_, end = std::min(next_ + kChunk, count_);
    next_ = end;
    const std::function<void(int, int)>& fn = *fn_;
    mu_.Unlock();
    fn(begin, end);
    mu_.Lock();
    pending_ -= end - begin;
  }
  if (pending_ == 0) finished_.NotifyAll();
}

void FanOut::Thread() {
  MutexLock lock(mu_);
  while (true) {
    wake_.Wait(lock,
               [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopped_ || next_ < count_; });
    if (stopped_) return;
    Take();
  }
}

}  // namespace coxswain
