#include "controller/driver/preparation/preparation_gate.h"

#include <utility>

namespace coxswain::driver {

void PreparationGate::Enter(bool alone, std::function<void()> begin) {
  waiting_.push_back({alone, std::move(begin)});
  LetIn();
}

void PreparationGate::Leave() {
  --running_;
  alone_ = false;
  LetIn();
}

void PreparationGate::LetIn() {
  while (!waiting_.empty() && !alone_ && (running_ == 0 || !waiting_.front().alone)) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    alone_ = next.alone;
    next.begin();
  }
}

}  // namespace coxswain::driver
