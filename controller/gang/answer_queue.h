// Events of all ranks on their way to the loop. The loop is woken when it can continue, not for
// each event.
#ifndef COXSWAIN_CONTROLLER_GANG_ANSWER_QUEUE_H_
#define COXSWAIN_CONTROLLER_GANG_ANSWER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "controller/runtime/loop.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::gang {

struct Answer {
  int rank = 0;
  int64_t received_ns = 0;  // of the loop's clock
  v1::Event event;
};

// Shared by a run and the threads that read its streams; these may outlive the run.
class AnswerQueue {
 public:
  // `ready` is posted to the loop when `wanted` answers or a failure have come.
  AnswerQueue(Loop* loop, Loop::Task ready) : loop_(loop), ready_(std::move(ready)) {}

  void Push(int rank, v1::Event event);  // any thread
  // Loop thread: everything that has come.
  std::vector<Answer> Take();
  // Loop thread: wake the loop when `wanted` more answers have come; at least 1.
  void Await(int wanted);

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Loop* const loop_;
  const Loop::Task ready_;
  Mutex mu_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mu_);
  int wanted_ ABSL_GUARDED_BY(mu_) = 1;
  bool failure_ ABSL_GUARDED_BY(mu_) = false;  // among answers_
  bool woken_ ABSL_GUARDED_BY(mu_) = false;    // posted and not yet taken
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_ANSWER_QUEUE_H_
