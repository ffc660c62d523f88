// One thread that runs what is posted to it, in order.
#ifndef COXSWAIN_WORKER_AGENT_TASK_THREAD_H_
#define COXSWAIN_WORKER_AGENT_TASK_THREAD_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain::agent {

class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // runs what was posted, then joins

  void Post(std::function<void()> task);
  // Waits until everything posted before the call has run; false after `timeout`.
  bool WaitIdle(std::chrono::milliseconds timeout);

 private:
  void Loop();

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  uint64_t posted_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t finished_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_TASK_THREAD_H_
