#include "controller/gang/answer_queue.h"

#include <utility>

namespace coxswain::gang {

void AnswerQueue::Push(int rank, v1::Event event) {
  const int64_t now_ns = loop_->clock().NowNs();
  MutexLock lock(mu_);
  failure_ = failure_ || !event.has_done();
  answers_.push_back({rank, now_ns, std::move(event)});
  Wake();
}

std::vector<Answer> AnswerQueue::Take() {
  MutexLock lock(mu_);
  woken_ = failure_ = false;
  return std::exchange(answers_, {});
}

void AnswerQueue::Await(int wanted) {
  MutexLock lock(mu_);
  wanted_ = wanted;
  Wake();
}

void AnswerQueue::Wake() {
  if (woken_ || (!failure_ && static_cast<int>(answers_.size()) < wanted_)) return;
  woken_ = true;
  loop_->Post(ready_);
}

}  // namespace coxswain::gang
