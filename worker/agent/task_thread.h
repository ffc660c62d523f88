// One thread that runs what is posted to it, in order.
#ifndef COXSWAIN_WORKER_AGENT_TASK_THREAD_H_
#define COXSWAIN_WORKER_AGENT_TASK_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

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

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_TASK_THREAD_H_
